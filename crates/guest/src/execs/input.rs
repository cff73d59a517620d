//! Sends a running exec bytes, signals and a new terminal size.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use coracle_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};
use coracle_sys::rustix::io::{Errno, write};
use coracle_sys::{signal, terminal};
use coracle_wire::{Fault, FaultCode, Terminal};

use super::exec::Phase;
use super::table::{Execs, unknown};

/// How often a blocked writer checks whether the exec still exists.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// End of input, as a user would type it on a terminal.
const END_OF_TRANSMISSION: &[u8] = &[4];

impl Execs {
    /// Writes as much of `data` as the exec's input accepts now, and waits a moment if it accepts nothing. Returns
    /// how much it wrote. The caller calls again for the rest, and checks each time that the fence still admits it.
    pub fn write_some(&self, exec: &str, data: &[u8]) -> Result<usize, Fault> {
        let stdin = self.stdin(exec)?;
        match write(stdin.as_fd(), data) {
            Ok(written) => Ok(written),
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&*stdin, PollFlags::OUT)], Some(&LOOK_AGAIN));
                Ok(0)
            }
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(closed(exec, Some(error))),
        }
    }

    /// Ends the exec's input.
    pub fn close_input(&self, exec: &str) -> Result<(), Fault> {
        let stdin = self.stdin(exec)?;
        let mut table = self.lock();
        let Some(found) = table.execs.get_mut(exec) else { return Err(unknown(exec)) };
        match found.terminal {
            Some(_) => drop(write(stdin.as_fd(), END_OF_TRANSMISSION)),
            None => found.stdin = None,
        }
        Ok(())
    }

    fn stdin(&self, exec: &str) -> Result<Arc<OwnedFd>, Fault> {
        let table = self.lock();
        let found = table.execs.get(exec).ok_or_else(|| unknown(exec))?;
        found.stdin.clone().ok_or_else(|| closed(exec, None))
    }

    /// Sends a signal to the leader's process group.
    pub fn signal(&self, exec: &str, number: i32) -> Result<(), Fault> {
        let table = self.lock();
        let found = table.execs.get(exec).ok_or_else(|| unknown(exec))?;
        if !(1..=64).contains(&number) {
            return Err(Fault {
                code: FaultCode::Invalid,
                message: format!("{number} is not a signal"),
                errno: None,
            });
        }
        if matches!(found.phase, Phase::Running) {
            // The guest does not reap the leader while this thread holds the table, so the group is still the
            // leader's.
            let _ = signal::send_to_group(found.pid, number);
        }
        Ok(())
    }

    pub fn resize(&self, exec: &str, size: Terminal) -> Result<(), Fault> {
        let table = self.lock();
        let found = table.execs.get(exec).ok_or_else(|| unknown(exec))?;
        if let Some(controller) = &found.terminal {
            let _ = terminal::resize(controller.as_fd(), size.rows, size.columns);
        }
        Ok(())
    }
}

fn closed(exec: &str, error: Option<Errno>) -> Fault {
    Fault {
        code: FaultCode::Invalid,
        message: format!("exec `{exec}` takes no input: it has none, closed it, or has ended"),
        errno: error.map(Errno::raw_os_error),
    }
}
