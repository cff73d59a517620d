//! Length-prefixed frames. A decoder never allocates more than the header announces, and never more than
//! [`FRAME_MAX`].

use minicbor::{Decode, Encode};

/// The largest payload of one frame: 1 MiB of data plus room for the fields around it.
pub const FRAME_MAX: usize = (1 << 20) + (16 << 10);

/// The bytes in front of each payload.
pub const HEADER_LEN: usize = 4;

/// Why bytes were not a frame, or a frame not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameError {
    /// The header announces more than [`FRAME_MAX`].
    TooLong { announced: usize },
    /// The payload is not the message that was expected.
    Malformed { reason: String },
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong { announced } => {
                write!(f, "frame of {announced} bytes is over the limit of {FRAME_MAX}")
            }
            Self::Malformed { reason } => write!(f, "malformed message: {reason}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Returns the message as one frame, header included.
pub fn encode<M: Encode<()>>(message: &M) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; HEADER_LEN];
    minicbor::encode(message, &mut frame)
        .map_err(|error| FrameError::Malformed { reason: error.to_string() })?;
    let payload = frame.len() - HEADER_LEN;
    if payload > FRAME_MAX {
        return Err(FrameError::TooLong { announced: payload });
    }
    frame[..HEADER_LEN].copy_from_slice(&(payload as u32).to_le_bytes());
    Ok(frame)
}

/// Returns the message in one payload (a frame without its header).
///
/// Refuses bytes after the message: two readers must never disagree on what a frame says.
pub fn decode<'b, M: Decode<'b, ()>>(payload: &'b [u8]) -> Result<M, FrameError> {
    let malformed = |reason: String| FrameError::Malformed { reason };
    let mut decoder = minicbor::Decoder::new(payload);
    let message = decoder.decode().map_err(|error| malformed(error.to_string()))?;
    match decoder.position() == payload.len() {
        true => Ok(message),
        false => Err(malformed(format!("{} bytes follow the message", payload.len() - decoder.position()))),
    }
}

/// Collects bytes as they arrive and returns complete payloads.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    taken: usize,
}

impl Decoder {
    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the bytes after the last payload, for a reader that goes on without frames.
    pub fn into_rest(mut self) -> Vec<u8> {
        self.buffer.split_off(self.taken)
    }

    /// Returns the next complete payload, or `None` until more bytes arrive.
    ///
    /// After an error the decoder has lost its place in the stream; the caller has to close the connection.
    pub fn next_payload(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let rest = &self.buffer[self.taken..];
        let Some(header) = rest.first_chunk::<HEADER_LEN>() else { return Ok(None) };
        let announced = u32::from_le_bytes(*header) as usize;
        if announced > FRAME_MAX {
            return Err(FrameError::TooLong { announced });
        }
        if rest.len() < HEADER_LEN + announced {
            return Ok(None);
        }
        let start = self.taken + HEADER_LEN;
        self.taken = start + announced;
        Ok(Some(&self.buffer[start..start + announced]))
    }
}
