//! Git's pkt-line: a length in four hexadecimal digits, then that many bytes. Pure: reads what it is given and keeps nothing.

use std::io::{self, Read};

/// The longest line git sends, its length included.
const LINE_MAX: usize = 65520;
const LENGTH: usize = 4;

/// One packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    Line(Vec<u8>),
    /// Ends a part of a conversation.
    Flush,
    /// Separates parts of a request, in version 2.
    Delimiter,
    /// Ends an answer over HTTP, in version 2.
    ResponseEnd,
}

/// Why bytes are no packets.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    #[error("a packet's length is no number it can have")]
    Length,
    #[error("the stream ends within a packet")]
    Truncated,
    #[error("could not read a packet")]
    Read(#[source] io::Error),
}

/// Reads one packet and not a byte more. Returns nothing where the stream ends before it.
pub fn read(from: &mut impl Read) -> Result<Option<Packet>, Malformed> {
    let mut length = [0; LENGTH];
    match fill(from, &mut length)? {
        0 => return Ok(None),
        LENGTH => {}
        _ => return Err(Malformed::Truncated),
    }
    let length = parse_length(length).ok_or(Malformed::Length)?;
    let rest = match length {
        0 => return Ok(Some(Packet::Flush)),
        1 => return Ok(Some(Packet::Delimiter)),
        2 => return Ok(Some(Packet::ResponseEnd)),
        LENGTH..=LINE_MAX => length - LENGTH,
        _ => return Err(Malformed::Length),
    };
    let mut line = vec![0; rest];
    match fill(from, &mut line)? == rest {
        true => Ok(Some(Packet::Line(line))),
        false => Err(Malformed::Truncated),
    }
}

/// Reads until the buffer is full or the stream ends; returns how much there was.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> Result<usize, Malformed> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Malformed::Read(error)),
        }
    }
    Ok(filled)
}

/// Reads the digits. No sign and no blank is one, which `from_str_radix` would take.
fn parse_length(digits: [u8; LENGTH]) -> Option<usize> {
    digits.iter().try_fold(0, |length, digit| Some(length * 16 + (*digit as char).to_digit(16)? as usize))
}

/// Appends a line. Panics if it is longer than git allows: lines of ours are not.
pub fn line(to: &mut Vec<u8>, line: &[u8]) {
    let length = line.len() + LENGTH;
    assert!(length <= LINE_MAX, "a line of ours is short");
    to.extend_from_slice(format!("{length:04x}").as_bytes());
    to.extend_from_slice(line);
}

/// Appends a flush.
pub fn flush(to: &mut Vec<u8>) {
    to.extend_from_slice(b"0000");
}

/// Appends bytes on a channel of the side band, in as many lines as they need.
pub fn band(to: &mut Vec<u8>, channel: u8, bytes: &[u8]) {
    for piece in bytes.chunks(LINE_MAX - LENGTH - 1) {
        line(to, &[&[channel], piece].concat());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_and_marks_are_read_and_nothing_behind_them() {
        let mut bytes: &[u8] = b"0008abcd0000000100020004rest";

        assert_eq!(read(&mut bytes).expect("a line"), Some(Packet::Line(b"abcd".to_vec())));
        assert_eq!(read(&mut bytes).expect("a mark"), Some(Packet::Flush));
        assert_eq!(read(&mut bytes).expect("a mark"), Some(Packet::Delimiter));
        assert_eq!(read(&mut bytes).expect("a mark"), Some(Packet::ResponseEnd));
        assert_eq!(read(&mut bytes).expect("a line"), Some(Packet::Line(Vec::new())));
        assert_eq!(bytes, b"rest");
    }

    #[test]
    fn lengths_that_are_none_are_refused() {
        for bad in ["0003", "fff1", "ffff", "+008", " 008", "00 8", "xxxx", "-001"] {
            assert!(matches!(read(&mut bad.as_bytes()), Err(Malformed::Length)), "{bad}");
        }
        for bad in ["0", "000", "0008abc"] {
            assert!(matches!(read(&mut bad.as_bytes()), Err(Malformed::Truncated)), "{bad}");
        }
        assert!(matches!(read(&mut &b""[..]), Ok(None)));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..20)) {
            let mut bytes = Vec::new();
            lines.iter().for_each(|one| line(&mut bytes, one));
            let mut rest = bytes.as_slice();
            for one in &lines {
                prop_assert_eq!(read(&mut rest).expect("a line"), Some(Packet::Line(one.clone())));
            }
            prop_assert!(matches!(read(&mut rest), Ok(None)));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let mut rest = bytes.as_slice();
            while let Ok(Some(_)) = read(&mut rest) {}
        }
    }
}
