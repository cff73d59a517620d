//! Signals that end a copy. It ends between two pieces, so that it can remove what it has not finished.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use coracle::{Error, Kind, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The caught signal, if any.
#[derive(Debug, Clone, Default)]
pub struct Ending(Arc<AtomicUsize>);

impl Ending {
    /// Catches the first signal from now on. The second one ends the process at once.
    pub fn catch(&self) -> Result<()> {
        let again = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = usize::try_from(signal).unwrap_or_default();
            flag::register_conditional_default(signal, again.clone())
                .and_then(|_| flag::register(signal, again.clone()))
                .and_then(|_| flag::register_usize(signal, self.0.clone(), number))
                .map_err(|error| Error::internal("could not watch for signals", error))?;
        }
        Ok(())
    }

    pub fn signal(&self) -> Option<i32> {
        i32::try_from(self.0.load(Ordering::Relaxed)).ok().filter(|signal| *signal != 0)
    }

    /// Refuses to go on after a signal.
    pub fn check(&self) -> Result<()> {
        match self.signal() {
            None => Ok(()),
            Some(signal) => Err(Error::new(Kind::Aborted, format!("signal {signal} ended the copy"))),
        }
    }
}

/// A stream that counts bytes and fails once a signal was caught.
#[derive(Debug)]
pub struct Watched<'a, T> {
    pub inner: T,
    pub ending: &'a Ending,
    pub bytes: u64,
}

impl<'a, T> Watched<'a, T> {
    pub fn new(inner: T, ending: &'a Ending) -> Self {
        Self { inner, ending, bytes: 0 }
    }

    fn passed(&mut self, count: usize) -> io::Result<usize> {
        self.bytes += count as u64;
        self.ending.check().map(|()| count).map_err(io::Error::other)
    }
}

impl<T: Read> Read for Watched<'_, T> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.passed(count)
    }
}

impl<T: Write> Write for Watched<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.passed(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
