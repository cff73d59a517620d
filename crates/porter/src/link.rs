//! Porter's end of the connection: frames, and within them a stream of git's protocol each way.

use std::io::{self, BufReader, BufWriter, Read, Write};

use coracle_porter::frame::{self, GIT_MAX};
use coracle_porter::{Frame, Order};

/// More than a frame, so that one call of the kernel brings it.
const BUFFER: usize = 128 << 10;

/// The connection to the host.
pub struct Link<R: Read, W: Write> {
    input: BufReader<R>,
    output: BufWriter<W>,
    /// Bytes of git's protocol that were not read yet, and how many of them were.
    arrived: Vec<u8>,
    taken: usize,
    ended: bool,
}

impl<R: Read, W: Write> Link<R, W> {
    pub fn new(input: R, output: W) -> Self {
        let (input, output) =
            (BufReader::with_capacity(BUFFER, input), BufWriter::with_capacity(BUFFER, output));
        Self { input, output, arrived: Vec::new(), taken: 0, ended: false }
    }

    /// Reads the order.
    pub fn order(&mut self) -> io::Result<Order> {
        match frame::read(&mut self.input)? {
            Frame::Message(bytes) => minicbor::decode(&bytes).map_err(io::Error::other),
            Frame::Git(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    pub fn send(&mut self, frame: &Frame) -> io::Result<()> {
        frame::write(&mut self.output, frame)
    }

    /// Sends bytes of git's protocol.
    pub fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(GIT_MAX).try_for_each(|piece| self.send(&Frame::Git(piece.to_vec())))
    }

    /// Says that no more of git's protocol comes from here.
    pub fn hang_up(&mut self) -> io::Result<()> {
        self.send(&Frame::Git(Vec::new()))
    }
}

/// Reads git's protocol.
impl<R: Read, W: Write> Read for Link<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.arrived.len() && !self.ended {
            match frame::read(&mut self.input)? {
                Frame::Git(bytes) => {
                    self.ended = bytes.is_empty();
                    (self.arrived, self.taken) = (bytes, 0);
                }
                Frame::Message(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        let length = buffer.len().min(self.arrived.len() - self.taken);
        buffer[..length].copy_from_slice(&self.arrived[self.taken..self.taken + length]);
        self.taken += length;
        Ok(length)
    }
}
