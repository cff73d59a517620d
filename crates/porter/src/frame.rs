//! Frames on the connection between host and porter. Git's own protocol travels between an order and its answer, so
//! each piece says what it is.

use std::io::{self, Read, Write};

/// The most bytes of git's protocol in one frame.
pub const GIT_MAX: usize = 64 << 10;
/// The longest message: an answer that lists conflicts, or a diff.
pub const MESSAGE_MAX: usize = 32 << 20;

const MESSAGE: u8 = 0;
const GIT: u8 = 1;

/// One piece of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// An order, or its answer.
    Message(Vec<u8>),
    /// Bytes of git's protocol; none say that there are no more.
    Git(Vec<u8>),
}

/// Writes one frame.
pub fn write(to: &mut impl Write, frame: &Frame) -> io::Result<()> {
    let (kind, bytes, most) = match frame {
        Frame::Message(bytes) => (MESSAGE, bytes, MESSAGE_MAX),
        Frame::Git(bytes) => (GIT, bytes, GIT_MAX),
    };
    if bytes.len() > most {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the frame is too long"));
    }
    let [a, b, c, d] = (bytes.len() as u32).to_le_bytes();
    to.write_all(&[kind, a, b, c, d])?;
    to.write_all(bytes)?;
    to.flush()
}

/// Reads one frame. Refuses one that is longer than its kind may be.
pub fn read(from: &mut impl Read) -> io::Result<Frame> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let [kind, a, b, c, d] = head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let most = match kind {
        MESSAGE => MESSAGE_MAX,
        GIT => GIT_MAX,
        _ => return Err(malformed("a frame of an unknown kind")),
    };
    if length > most {
        return Err(malformed("a frame that is too long"));
    }
    // Not all at once: the other side has only announced it.
    let mut bytes = Vec::with_capacity(length.min(GIT_MAX));
    if from.take(length as u64).read_to_end(&mut bytes)? != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(if kind == MESSAGE { Frame::Message(bytes) } else { Frame::Git(bytes) })
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_survives_being_sent() {
        for frame in [Frame::Message(vec![1, 2]), Frame::Git(vec![3]), Frame::Git(Vec::new())] {
            let mut sent = Vec::new();
            write(&mut sent, &frame).expect("memory takes it");

            assert_eq!(read(&mut sent.as_slice()).ok(), Some(frame));
        }
    }

    #[test]
    fn a_frame_that_is_too_long_or_cut_short_is_refused() {
        let long = [GIT, 0xff, 0xff, 0xff, 0x7f];
        let cut = [MESSAGE, 9, 0, 0, 0, 1];
        let unknown = [7, 0, 0, 0, 0];

        for bytes in [long.as_slice(), &cut, &unknown, &[]] {
            assert!(read(&mut &*bytes).is_err(), "{bytes:?}");
        }
    }
}
