//! Whole frames over a stream, for both ends. Each end knows what message it expects.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use coracle_wire::{Decoder, FrameError};

/// A stream, and the received bytes that are not a whole frame yet.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
    decoder: Decoder,
}

impl Channel {
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, decoder: Decoder::default() }
    }

    /// Sends a frame that `encode` returned.
    pub fn send(&mut self, frame: Result<Vec<u8>, FrameError>) -> io::Result<()> {
        self.stream.write_all(&frame.map_err(garbled)?)
    }

    /// Returns the stream itself, to go on without frames.
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// Tells whether the other end has closed. Keeps what it has sent before.
    pub fn has_ended(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        let ended = loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => break true,
                Ok(count) => self.decoder.push(&buffer[..count]),
                Err(error) => break error.kind() != io::ErrorKind::WouldBlock,
            }
        };
        ended || self.stream.set_nonblocking(false).is_err()
    }

    /// Returns the payload of the next frame, or `None` if the other end has closed.
    pub fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = [0; 16 << 10];
        loop {
            if let Some(payload) = self.decoder.next_payload().map_err(garbled)? {
                return Ok(Some(payload.to_vec()));
            }
            match self.stream.read(&mut buffer)? {
                0 => return Ok(None),
                count => self.decoder.push(&buffer[..count]),
            }
        }
    }
}

pub fn garbled(error: FrameError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
