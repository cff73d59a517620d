//! Freezes every command at once, by the cgroup they are all born in. The forker freezes with them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use coracle_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};
use coracle_sys::rustix::fs::{Mode, OFlags, openat};
use coracle_sys::rustix::io::{Errno, pread, write};
use coracle_wire::{Fault, FaultCode};

use super::table::Execs;

/// A process freezes at its next step, or when the disk has answered.
const PATIENCE: Duration = Duration::from_secs(5);

impl Execs {
    /// Freezes the commands and stops their clocks. On error they go on.
    pub fn freeze(&self) -> Result<(), Fault> {
        let commands = self.context.commands.as_ref().ok_or_else(no_cgroups)?.as_fd();
        self.stop_clocks();
        let frozen = set(commands, b"1").and_then(|()| wait_until_frozen(commands));
        frozen.map_err(|error| {
            let _ = set(commands, b"0");
            self.start_clocks();
            failed("freeze the commands", &error)
        })
    }

    /// Thaws the commands and starts their clocks again.
    pub fn thaw(&self) -> Result<(), Fault> {
        if let Some(commands) = &self.context.commands {
            set(commands.as_fd(), b"0").map_err(|error| failed("thaw the commands", &error))?;
        }
        self.start_clocks();
        Ok(())
    }

    /// Stops all clocks: deadlines, graces and the sandbox's own idle time.
    pub fn stop_clocks(&self) {
        self.lock().stopped.get_or_insert_with(Instant::now);
    }

    /// Starts the clocks where they were stopped.
    fn start_clocks(&self) {
        let mut table = self.lock();
        let Some(since) = table.stopped.take() else { return };
        let lost = since.elapsed();
        table.execs.values_mut().filter(|exec| !exec.is_ended()).for_each(|exec| exec.postpone(lost));
        table.kept.iter_mut().for_each(|kept| kept.postpone(lost));
    }

    /// Tells whether the clocks are stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped.is_some()
    }

    /// Tells whether there is no process but the guest and its forker.
    pub fn is_idle(&self) -> bool {
        self.load().0 == 0 && self.background() == 0
    }
}

fn set(commands: BorrowedFd<'_>, value: &[u8]) -> io::Result<()> {
    let file = openat(commands, "cgroup.freeze", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    write(&file, value)?;
    Ok(())
}

/// Waits until the kernel reports that every process is frozen.
fn wait_until_frozen(commands: BorrowedFd<'_>) -> io::Result<()> {
    let events: OwnedFd = openat(commands, "cgroup.events", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut text = [0; 256];
        let length = pread(&events, &mut text, 0)?;
        if text[..length].split(|byte| *byte == b'\n').any(|line| line == b"frozen 1") {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // A change between the read and this call is not lost: the kernel keeps the file marked until it is read
        // again.
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn no_cgroups() -> Fault {
    let message = "could not freeze the commands: the sandbox has no cgroup for them".to_owned();
    Fault { code: FaultCode::Unsupported, message, errno: None }
}

fn failed(attempted: &str, error: &io::Error) -> Fault {
    let message = format!("could not {attempted}: {error}");
    Fault { code: FaultCode::Internal, message, errno: error.raw_os_error() }
}
