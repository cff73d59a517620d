//! Standing still: paused until somebody resumes, or held for a moment while the sandbox's files are taken.

use coracle_wire::{Fault, Reply};

use super::fence::Calm;
use crate::reactor::Shared;

/// Freezes the commands; from then on no time counts, neither theirs nor the sandbox's own.
pub fn pause(shared: &Shared, epoch: u64) -> Result<Reply, Fault> {
    let mut standing = shared.fence.still(epoch)?;
    if standing.calm == Calm::No {
        shared.execs.freeze()?;
        standing.calm = Calm::Paused;
    }
    Ok(Reply::Done {})
}

/// Lets the commands go on.
pub fn resume(shared: &Shared, epoch: u64) -> Result<Reply, Fault> {
    let mut standing = shared.fence.still(epoch)?;
    // Also where nothing is paused: a pause that failed half way may have left something frozen.
    shared.execs.thaw()?;
    standing.calm = Calm::No;
    shared.touch();
    shared.wake();
    Ok(Reply::Done {})
}

/// Holds everything as it is. Whoever asked lets go, or ends the connection.
pub fn hold(shared: &Shared, epoch: u64) -> Result<Reply, Fault> {
    let mut standing = shared.fence.still(epoch)?;
    let idle = shared.execs.is_idle() && !crate::files::Upload::is_any_begun();
    match idle {
        true => shared.execs.stop_clocks(),
        false if standing.calm == Calm::No => shared.execs.freeze()?,
        false => {}
    }
    shared.fence.hold(&mut standing);
    Ok(Reply::Held { idle })
}

/// Ends a hold. The root may be another one by now.
pub fn let_go(shared: &Shared) {
    shared.fence.let_go(|paused| {
        crate::files::open_roots_again();
        if !paused {
            // There is nobody to tell; a command that stays frozen can be resumed.
            let _ = shared.execs.thaw();
        }
        shared.touch();
    });
    shared.wake();
}
