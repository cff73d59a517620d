//! Pause and hold. A pause freezes commands until a caller resumes them. A hold lasts a moment, while the sandbox's
//! files are copied or its owner changes.

use std::time::{Duration, Instant};

use coracle_wire::{Fault, Reply};

use super::fence::{Calm, Grip};
use crate::reactor::Shared;
use crate::weak::{self, Wall};

/// The parameters of a hold.
#[derive(Debug, Clone, Copy)]
pub struct Hold {
    pub connection: u64,
    pub lease_ms: Option<u64>,
    /// Commands go on; only changes from outside wait.
    pub changes_only: bool,
}

impl Hold {
    fn grip(self) -> Grip {
        let lease = self.lease_ms.filter(|_| !weak::off(Wall::Leases));
        let until = lease.and_then(|lease| Instant::now().checked_add(Duration::from_millis(lease)));
        Grip { connection: self.connection, until }
    }
}

/// Freezes the commands and stops all clocks: theirs, and the sandbox's idle time.
pub fn pause(shared: &Shared, epoch: u64) -> Result<Reply, Fault> {
    let mut state = shared.fence.still(epoch)?;
    if state.calm == Calm::No {
        shared.execs.freeze()?;
        state.calm = Calm::Paused;
    }
    Ok(Reply::Done {})
}

/// Thaws the commands.
pub fn resume(shared: &Shared, epoch: u64) -> Result<Reply, Fault> {
    let mut state = shared.fence.still(epoch)?;
    // Also if nothing is paused: a pause that failed half way may have left commands frozen.
    shared.execs.thaw()?;
    state.calm = Calm::No;
    shared.usage.touch();
    shared.wake();
    Ok(Reply::Done {})
}

/// Holds the sandbox as it is. The hold ends when the caller releases it, ends the connection, or does not renew it
/// in time.
pub fn hold(shared: &Shared, epoch: u64, hold: Hold) -> Result<Reply, Fault> {
    let mut state = shared.fence.still(epoch)?;
    let idle = is_idle(shared);
    match (idle, state.calm) {
        _ if hold.changes_only => {}
        (true, _) => shared.execs.stop_clocks(),
        (false, Calm::No) => shared.execs.freeze()?,
        (false, _) => {}
    }
    shared.fence.hold(&mut state, hold.grip());
    drop(state);
    // The end of the hold may be the main thread's next deadline.
    shared.wake();
    Ok(Reply::Held { idle, lease_ms: hold.lease_ms })
}

/// Restarts the lease of a hold, if the hold is not over.
pub fn renew(shared: &Shared, hold: Hold) -> Result<Reply, Fault> {
    shared.fence.renew(hold.grip())?;
    shared.wake();
    Ok(Reply::Held { idle: is_idle(shared), lease_ms: hold.lease_ms })
}

/// Ends the hold of a connection.
pub fn let_go(shared: &Shared, connection: u64) {
    shared.fence.let_go(connection, |paused| go_on(shared, paused));
    shared.wake();
}

/// Ends a hold that was not renewed in time: its holder may be stopped for good. Returns when to look again.
pub fn lapse(shared: &Shared, now: Instant) -> Option<Instant> {
    shared.fence.lapse(now, |paused| go_on(shared, paused))
}

/// Thaws what the hold froze. The sandbox's root may have been replaced meanwhile.
fn go_on(shared: &Shared, paused: bool) {
    crate::files::open_roots_again();
    if !paused {
        // There is no caller to report to; a command that stays frozen can be resumed.
        let _ = shared.execs.thaw();
    }
    shared.usage.touch();
}

fn is_idle(shared: &Shared) -> bool {
    shared.execs.is_idle() && !crate::files::Upload::is_any_begun()
}
