//! Turns bytes from a blocking thread into the body of an asynchronous request.

use std::io::{self, Write};
use std::thread::JoinHandle;

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Large enough that sending does not cost more than packing.
const CHUNK: usize = 64 << 10;
/// Chunks that wait for a container engine slower than the disk.
const WAITING: usize = 8;

/// The thread that makes the bytes.
#[derive(Debug)]
pub struct Feed(JoinHandle<io::Result<()>>);

impl Feed {
    /// Waits for its end. Returns why it failed, unless the request only stopped reading.
    pub fn failure(self) -> Option<io::Error> {
        let made = self.0.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
        made.err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
    }
}

/// Starts to make bytes. If that fails the request fails: half a body never passes for a complete one. Ends when
/// the request stops reading.
pub fn feed(
    make: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> (Feed, impl Stream<Item = io::Result<Bytes>> + Send + 'static) {
    let (sender, receiver) = channel(WAITING);
    let thread = std::thread::spawn(move || {
        let mut chunks = Chunks { sender, chunk: Vec::with_capacity(CHUNK) };
        let made = make(&mut chunks).and_then(|()| chunks.flush());
        if let Err(error) = &made {
            let told = io::Error::new(error.kind(), error.to_string());
            let _ = chunks.sender.blocking_send(Err(told));
        }
        made
    });
    (Feed(thread), stream(receiver))
}

fn stream(receiver: Receiver<io::Result<Bytes>>) -> impl Stream<Item = io::Result<Bytes>> {
    futures_util::stream::unfold(receiver, |mut receiver| async move {
        let chunk = receiver.recv().await?;
        Some((chunk, receiver))
    })
}

/// Collects small writes.
struct Chunks {
    sender: Sender<io::Result<Bytes>>,
    chunk: Vec<u8>,
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        if self.chunk.len() == CHUNK {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        self.sender.blocking_send(Ok(chunk.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
