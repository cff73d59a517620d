//! The subreaper of one exec: the process all processes of the exec descend from, where neither a cgroup nor a
//! namespace can keep them together. The kernel reparents a process that loses its parent to the subreaper
//! (`PR_SET_CHILD_SUBREAPER`), so none can leave the family.
//!
//! It is the guest's child, runs as the guest's user without capabilities, and ends after the last process of the
//! exec.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use coracle_sys::launch::BOOT_DESCRIPTOR;
use coracle_sys::rustix::process::{
    Signal, WaitId, WaitIdOptions, getpid, kill_process, set_child_subreaper, waitid,
};
use coracle_sys::spawn::{self, Failed, Nest, Parent};
use coracle_sys::{capability, rustix, signal};
use coracle_wire::Stage;

use super::{Confinement, Given, fork, tell};

/// Starts a subreaper, which starts the command. The subreaper sends the guest its own pid, then whether the
/// command started.
pub fn raise(socket: &UnixStream, given: &Given<'_>, confinement: Confinement<'_>) -> io::Result<()> {
    let raised = spawn::fork_into(None, Parent::Ours, || {
        if let Some((report, leader)) = start(socket, given, confinement) {
            tend(report, leader);
            // It could not wait for the family. Die by KILL: a family without a subreaper must not look like one
            // that ended well.
            let _ = kill_process(getpid(), Signal::KILL);
        }
    });
    match raised {
        Ok(_) => Ok(()),
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(5);
            tell_none(socket, Failed { stage: Stage::Fork as u8, errno })
        }
    }
}

/// Tells the guest that there is no subreaper, and why.
pub fn tell_none(mut socket: &UnixStream, failed: Failed) -> io::Result<()> {
    socket.write_all(&0i32.to_le_bytes())?;
    tell(socket, Err(failed))
}

/// Starts the command and tells the guest about it.
fn start<'a>(
    mut socket: &UnixStream,
    given: &Given<'a>,
    confinement: Confinement<'_>,
) -> Option<(BorrowedFd<'a>, i32)> {
    socket.write_all(&getpid().as_raw_nonzero().get().to_le_bytes()).ok()?;
    let started = prepare(given.received).and_then(|(nest, report)| {
        let leader = fork(&nest, given, confinement)?;
        Ok((report, leader))
    });
    tell(socket, started.as_ref().map(|(_, leader)| *leader).map_err(|failed| *failed)).ok()?;
    started.ok()
}

fn prepare(received: &[OwnedFd]) -> Result<(Nest, BorrowedFd<'_>), Failed> {
    let failed = |errno: i32| Failed { stage: Stage::Prepare as u8, errno };
    set_child_subreaper(Some(getpid())).map_err(|errno| failed(errno.raw_os_error()))?;
    let [_, _, _, report] = received else { return Err(failed(rustix::io::Errno::BADF.raw_os_error())) };
    // Makes its own nest: the forker uses its nest for the next command.
    let nest = Nest::new().map_err(|error| failed(error.raw_os_error().unwrap_or(5)))?;
    Ok((nest, report.as_fd()))
}

/// Waits for the family to end, and reports how its leader ended as soon as it has. Returns only if it cannot.
fn tend(report: BorrowedFd<'_>, leader: i32) {
    // Drop all capabilities and close the streams: their reader waits until every holder has closed them.
    let kept =
        spawn::place(report, BOOT_DESCRIPTOR).and_then(|()| spawn::close_from(BOOT_DESCRIPTOR as u32 + 1));
    if kept.and_then(|()| capability::keep(0)).is_err() {
        return;
    }
    // Stay as opaque as the command has made us. We share its memory until the kernel has put the program in place,
    // a moment after the start is reported. Attack NS-20 catches a change that forgets this.
    let report = coracle_sys::launch::boot_socket();
    while let Some(ended) = signal::wait() {
        if ended.pid != leader {
            continue;
        }
        let (kind, number) = match ended.exit {
            // As most commands do, it left no process behind: our own exit reports the same, and at once.
            Ok(code) if !has_children() => spawn::exit(code),
            Ok(code) => (0u8, code),
            Err(number) => (1, number),
        };
        let [a, b, c, d] = number.to_le_bytes();
        let _ = rustix::io::write(&report, &[kind, a, b, c, d]);
        while signal::wait().is_some() {}
        spawn::exit(0);
    }
}

fn has_children() -> bool {
    let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::All, looking).is_ok()
}
