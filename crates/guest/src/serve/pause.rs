//! Pause and hold. A pause freezes commands until somebody resumes them; a hold lasts a moment, while the sandbox's files
//! are copied or its owner changes.

use std::time::{Duration, Instant};

use coracle_wire::{Fault, Reply};

use super::fence::{Calm, Grip};
use crate::reactor::Shared;
use crate::weak::{self, Wall};

/// What a hold is asked for with.
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

/// Freezes the commands; from then on no time counts, neither theirs nor the sandbox's own.
pub fn pause(shared: &Shared, epoch: u64) -> Result<Reply, Fault> {
    let mut state = shared.fence.still(epoch)?;
    if state.calm == Calm::No {
        shared.execs.freeze()?;
        state.calm = Calm::Paused;
    }
    Ok(Reply::Done {})
}

/// Lets the commands go on.
pub fn resume(shared: &Shared, epoch: u64) -> Result<Reply, Fault> {
    let mut state = shared.fence.still(epoch)?;
    // Also where nothing is paused: a pause that failed half way may have left something frozen.
    shared.execs.thaw()?;
    state.calm = Calm::No;
    shared.usage.touch();
    shared.wake();
    Ok(Reply::Done {})
}

/// Holds everything as it is. Whoever asked lets go, ends the connection, or does not renew it in time.
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
    // Its end may be what the main thread has to wake up for next.
    shared.wake();
    Ok(Reply::Held { idle, lease_ms: hold.lease_ms })
}

/// Counts the lease of a hold from now, if it is not over.
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

/// Ends a hold that nobody has renewed in time: the holder may be stopped for good. Returns when to look again.
pub fn lapse(shared: &Shared, now: Instant) -> Option<Instant> {
    shared.fence.lapse(now, |paused| go_on(shared, paused))
}

/// Sets going what stood still for a hold. The root may be another one by now.
fn go_on(shared: &Shared, paused: bool) {
    crate::files::open_roots_again();
    if !paused {
        // There is nobody to tell; a command that stays frozen can be resumed.
        let _ = shared.execs.thaw();
    }
    shared.usage.touch();
}

fn is_idle(shared: &Shared) -> bool {
    shared.execs.is_idle() && !crate::files::Upload::is_any_begun()
}
