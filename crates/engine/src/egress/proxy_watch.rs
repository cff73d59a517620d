//! Watches the keeper of a sandbox, its egress proxy, while a caller waits for a command there, and replaces it if it is
//! killed.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coracle_core::{Record, SandboxId};
use coracle_egress::directory;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::Egress;

/// How often a keeper is looked at that is no process of its own, or that cannot be watched.
const LOOK: Duration = Duration::from_secs(1);
/// It waits, and starts a process now and then.
const STACK: usize = 256 << 10;

/// Watches the keeper of one sandbox until it is dropped.
#[derive(Debug)]
pub(crate) struct ProxyWatch {
    /// Readable when the watch is to end.
    end: Arc<OwnedFd>,
}

impl Egress {
    /// Replaces a keeper that ends, for as long as the result is held. Returns nothing if the sandbox has no network, or
    /// if no thread can be started: then the next call replaces the keeper.
    pub(crate) fn watch_keeper(&self, record: &Record) -> Option<ProxyWatch> {
        let keepers = self.keepers.as_ref().filter(|_| !record.spec.network.is_none())?;
        let (directory, sandbox) = (keepers.directory(&record.id), record.id.clone());
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).ok()?);
        let (egress, ended) = (self.clone(), end.clone());
        let watch = move || egress.look_after(&directory, &sandbox, &ended);
        std::thread::Builder::new().name("proxy-watch".to_owned()).stack_size(STACK).spawn(watch).ok()?;
        Some(ProxyWatch { end })
    }

    fn look_after(&self, place: &Path, sandbox: &SandboxId, end: &OwnedFd) {
        loop {
            // What fails now is tried again, and told to the next call.
            let _ = self.replace_keeper(sandbox);
            let keeper = directory::holder(place).ok().flatten();
            match wait(end, keeper.as_ref()) {
                Woken::End => return,
                Woken::Keeper | Woken::Time => {}
            }
        }
    }
}

impl Drop for ProxyWatch {
    fn drop(&mut self) {
        // It cannot be full: this is the only number ever written.
        let _ = rustix::io::write(&*self.end, &1_u64.to_ne_bytes());
    }
}

enum Woken {
    End,
    Keeper,
    Time,
}

/// Waits until it is to end or the keeper has; where there is none to wait for, for a while.
fn wait(end: &OwnedFd, keeper: Option<&OwnedFd>) -> Woken {
    let look = Timespec { tv_sec: LOOK.as_secs() as i64, tv_nsec: 0 };
    let time = keeper.is_none().then_some(&look);
    let all = std::iter::once(end).chain(keeper);
    let mut polled: Vec<_> = all.map(|descriptor| PollFd::new(descriptor, PollFlags::IN)).collect();
    match poll(&mut polled, time) {
        Ok(0) | Err(Errno::INTR) => Woken::Time,
        Ok(_) if polled[0].revents().is_empty() => Woken::Keeper,
        Ok(_) | Err(_) => Woken::End,
    }
}
