//! Cutting off somebody who waits at a guest, from another thread.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::guest::Guest;

/// What ties somebody who waits to whoever may end the waiting. All clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Tether(Arc<Mutex<Tied>>);

#[derive(Debug)]
struct Tied {
    /// Another handle of the connection that is waited on.
    stream: UnixStream,
    cut: bool,
}

/// Ends the waiting when it is dropped: whatever waits at the guest, or would wait from now on, fails.
#[derive(Debug)]
pub struct Cutter(Tether);

impl Tether {
    pub(crate) fn to(guest: &Guest) -> io::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(Tied { stream: guest.handle()?, cut: false }))))
    }

    /// Ties to another connection, for somebody who goes on there.
    pub(crate) fn move_to(&self, guest: &Guest) -> io::Result<()> {
        let stream = guest.handle()?;
        let mut tied = self.tied();
        if tied.cut {
            let _ = stream.shutdown(Shutdown::Both);
        }
        tied.stream = stream;
        Ok(())
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.tied().cut
    }

    pub(crate) fn cutter(&self) -> Cutter {
        Cutter(self.clone())
    }

    fn tied(&self) -> MutexGuard<'_, Tied> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        let mut tied = self.0.tied();
        tied.cut = true;
        let _ = tied.stream.shutdown(Shutdown::Both);
    }
}
