//! Frames over one stream: what is queued goes out in one write, answers come back one by one.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_wire::{Decoder, FrameError, decode, encode};

use super::failure::Failure;

/// How long an answer may take beyond what was asked to be waited for. A healthy guest needs a millisecond; on cgroup v1
/// all sandboxes together weigh as much as one process of the machine, so on an overloaded one it needs far longer.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Read at once: an ordinary answer. A daemon has hundreds of connections that wait for one.
const READ_LEN: usize = 4 << 10;
/// Read at once after a read that was not enough: a good part of a large answer.
const READ_MAX: usize = 64 << 10;

/// One connection, below the level of requests.
#[derive(Debug)]
pub(super) struct Link {
    stream: UnixStream,
    inbox: Decoder,
    outbox: Vec<u8>,
    buffer: Vec<u8>,
    /// Messages sent, or about to be, that have not been answered yet.
    owed: usize,
    /// What the kernel was told last, so that it is not told again before every read.
    read_timeout: Option<Duration>,
}

impl Link {
    pub(super) fn new(stream: UnixStream) -> Result<Self, Failure> {
        stream.set_write_timeout(Some(PATIENCE)).map_err(Failure::Stream)?;
        let buffer = vec![0; READ_LEN];
        Ok(Self {
            stream,
            inbox: Decoder::default(),
            outbox: Vec::new(),
            buffer,
            owed: 0,
            read_timeout: None,
        })
    }

    pub(super) fn stream(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Puts a message behind those that wait to be sent.
    pub(super) fn queue<M: minicbor::Encode<()>>(&mut self, message: &M) -> Result<(), Failure> {
        let frame = encode(message).map_err(|error| match error {
            FrameError::TooLong { announced } => Failure::TooLarge { bytes: announced },
            FrameError::Malformed { .. } => Failure::Garbled(error),
        })?;
        self.outbox.extend_from_slice(&frame);
        self.owed += 1;
        Ok(())
    }

    /// Sends everything queued, in one write if the socket takes it.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        let sent = self.stream.write_all(&self.outbox);
        self.outbox.clear();
        sent.map_err(broken)
    }

    /// Sends bytes that are no message.
    pub(super) fn send_raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.owed += 1;
        self.stream.write_all(bytes).map_err(broken)
    }

    /// Returns the next message, waiting for it up to `wait` and the guest's own time to answer.
    pub(super) fn receive<M>(&mut self, wait: Duration) -> Result<M, Failure>
    where
        M: for<'b> minicbor::Decode<'b, ()>,
    {
        loop {
            if let Some(payload) = self.inbox.next_payload().map_err(Failure::Garbled)? {
                let message = decode(payload).map_err(Failure::Garbled)?;
                self.owed = self.owed.saturating_sub(1);
                return Ok(message);
            }
            self.fill(wait)?;
        }
    }

    /// Returns the stream itself, and what has arrived behind the last message.
    pub(super) fn into_stream(self) -> Result<(UnixStream, Vec<u8>), Failure> {
        self.stream
            .set_read_timeout(None)
            .and_then(|()| self.stream.set_write_timeout(None))
            .map_err(Failure::Stream)?;
        Ok((self.stream, self.inbox.into_rest()))
    }

    /// Tells whether every message was answered. If not, the next answer would belong to another question.
    pub(super) fn is_settled(&self) -> bool {
        self.owed == 0
    }

    fn fill(&mut self, wait: Duration) -> Result<(), Failure> {
        self.wait_at_most(wait.saturating_add(PATIENCE))?;
        match self.stream.read(&mut self.buffer) {
            Ok(0) => Err(Failure::Gone),
            Ok(count) => {
                self.inbox.push(&self.buffer[..count]);
                if count == self.buffer.len() && count < READ_MAX {
                    self.buffer.resize(READ_MAX, 0);
                }
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(broken(error)),
        }
    }

    fn wait_at_most(&mut self, timeout: Duration) -> Result<(), Failure> {
        if self.read_timeout == Some(timeout) {
            return Ok(());
        }
        self.stream.set_read_timeout(Some(timeout)).map_err(Failure::Stream)?;
        self.read_timeout = Some(timeout);
        Ok(())
    }
}

fn broken(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
            Failure::Gone
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Failure::Silent,
        _ => Failure::Stream(error),
    }
}
