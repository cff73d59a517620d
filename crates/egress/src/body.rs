//! Finds where the body of a request ends. The proxy drops bytes after that end.

use crate::head::Body;

/// The longest line with the length of a chunk. The proxy refuses extensions, so the line is a number.
const SIZE_LINE_MAX: usize = 16;
/// The proxy drops trailer fields after a chunked body: nothing that matters may hide there.
const TRAILER: &[u8] = b"\r\n";

/// The position in the body.
#[derive(Debug)]
pub struct Measure {
    state: State,
}

#[derive(Debug)]
enum State {
    Plain(u64),
    /// In the line with a chunk's length.
    Size(Vec<u8>),
    Data(u64),
    /// In the line break after a chunk, or after the last one; how much of it has come.
    Break {
        last: bool,
        seen: usize,
    },
    Done,
}

/// A body that does not follow its announced coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body of the request does not follow its announced coding")]
pub struct Garbled;

impl Measure {
    pub fn new(body: Body) -> Self {
        let state = match body {
            Body::Length(0) => State::Done,
            Body::Length(length) => State::Plain(length),
            Body::Chunked => State::Size(Vec::new()),
        };
        Self { state }
    }

    /// Returns the measure of a complete body.
    pub fn done() -> Self {
        Self { state: State::Done }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Returns how many of these bytes belong to the body.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, Garbled> {
        let mut taken = 0;
        while taken < bytes.len() && !self.is_done() {
            taken += self.step(&bytes[taken..])?;
        }
        Ok(taken)
    }

    fn step(&mut self, bytes: &[u8]) -> Result<usize, Garbled> {
        match &mut self.state {
            State::Plain(left) | State::Data(left) => {
                let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                if *left == 0 {
                    self.state = match self.state {
                        State::Plain(_) => State::Done,
                        _ => State::Break { last: false, seen: 0 },
                    };
                }
                Ok(taken)
            }
            State::Size(line) => {
                let after_return = line.ends_with(b"\r");
                match bytes[0] {
                    b'\n' if after_return => {}
                    b'\r' if !after_return => {}
                    digit if digit.is_ascii_hexdigit() && !after_return => {}
                    _ => return Err(Garbled),
                }
                line.push(bytes[0]);
                if let Some(digits) = line.strip_suffix(b"\r\n") {
                    self.state = match size(digits)? {
                        0 => State::Break { last: true, seen: 0 },
                        size => State::Data(size),
                    };
                } else if line.len() > SIZE_LINE_MAX {
                    return Err(Garbled);
                }
                Ok(1)
            }
            State::Break { last, seen } => {
                if bytes[0] != TRAILER[*seen] {
                    return Err(Garbled);
                }
                *seen += 1;
                if *seen == TRAILER.len() {
                    self.state = if *last { State::Done } else { State::Size(Vec::new()) };
                }
                Ok(1)
            }
            State::Done => Ok(0),
        }
    }
}

fn size(digits: &[u8]) -> Result<u64, Garbled> {
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| plain).ok_or(Garbled)?;
    u64::from_str_radix(text, 16).ok().filter(|size| *size < 1 << 60).ok_or(Garbled)
}
