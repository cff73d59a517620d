//! Holds the processes of a sandbox together, so that all are found and ended: by cgroups, or without root by the
//! first process alone, whose end ends all processes of its pid namespace.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use coracle_sys::cgroup::{Group, Population, Values};
use coracle_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};
use coracle_sys::rustix::io::Errno;
use coracle_sys::rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The cage of one sandbox. Making the value creates nothing on the machine.
#[derive(Debug)]
pub enum Cage<'a> {
    Groups(Group<'a>),
    Process(First),
}

impl Cage<'_> {
    /// Makes what must exist before the first process.
    pub fn make(&self, values: &Values, owner: u32) -> io::Result<()> {
        match self {
            Self::Groups(group) => group.create(values, owner),
            Self::Process(_) => Ok(()),
        }
    }

    /// Records the first process, before it goes on.
    pub fn note(&self, pid: i32) -> io::Result<()> {
        match self {
            Self::Groups(_) => Ok(()),
            Self::Process(first) => first.note(pid),
        }
    }

    pub fn group(&self) -> Option<&Group<'_>> {
        match self {
            Self::Groups(group) => Some(group),
            Self::Process(_) => None,
        }
    }

    /// Returns the pid of the first process; `None` without cgroups.
    pub fn guest_pid(&self) -> Option<i32> {
        self.group().and_then(Group::guest_pid)
    }

    /// Kills every process and waits until they are gone.
    pub fn kill(&self, patience: Duration) -> io::Result<()> {
        match self {
            Self::Groups(group) => group.kill(patience),
            Self::Process(first) => first.kill(patience),
        }
    }

    /// Removes the cgroups. A record in the sandbox's directory goes with that.
    pub fn remove(&self) -> io::Result<()> {
        match self {
            Self::Groups(group) => group.remove(),
            Self::Process(_) => Ok(()),
        }
    }

    /// Tells whether a process is left.
    pub fn population(&self) -> io::Result<Population> {
        match self {
            Self::Groups(group) => group.population(),
            Self::Process(first) => first.population(),
        }
    }

    /// Tells whether a cgroup exists.
    pub fn has_groups(&self) -> bool {
        self.group().is_some_and(|group| group.count() > 0)
    }
}

/// The first process of a sandbox, recorded in its directory with its start time: the kernel reuses pids.
#[derive(Debug)]
pub struct First {
    path: PathBuf,
}

impl First {
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    fn note(&self, pid: i32) -> io::Result<()> {
        let started = started(pid)?.ok_or(io::ErrorKind::NotFound)?;
        fs::write(&self.path, format!("{pid} {started}"))
    }

    /// Tells whether the process exists; `Unseen` if none was recorded.
    fn population(&self) -> io::Result<Population> {
        match self.written()? {
            None => Ok(Population::Unseen),
            Some(_) => Ok(if self.find()?.is_some() { Population::Some } else { Population::None }),
        }
    }

    /// Returns the recorded pid and start time.
    fn written(&self) -> io::Result<Option<(i32, String)>> {
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let parsed =
            text.split_once(' ').and_then(|(pid, since)| Some((pid.parse().ok()?, since.to_owned())));
        Ok(parsed)
    }

    /// Returns a descriptor of the process, if it is still the recorded one. Fails if that cannot be determined.
    fn find(&self) -> io::Result<Option<std::os::fd::OwnedFd>> {
        let Some((pid, since)) = self.written()? else { return Ok(None) };
        let Some(number) = Pid::from_raw(pid) else { return Ok(None) };
        let handle = match pidfd_open(number, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(None),
            handle => handle?,
        };
        // Check after opening: if the start time matches now, the descriptor is of that very process.
        Ok((started(pid)?.as_ref() == Some(&since)).then_some(handle))
    }

    fn kill(&self, patience: Duration) -> io::Result<()> {
        let Some(handle) = self.find()? else { return Ok(()) };
        let _ = pidfd_send_signal(&handle, Signal::KILL);
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            // Readable when the process has ended, which it does after every other process of its namespace.
            match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&left)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns when a process started, in ticks since boot; `None` if it has ended.
fn started(pid: i32) -> io::Result<Option<String>> {
    let text = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => return Ok(None),
        text => text?,
    };
    Ok(living(&text))
}

/// Reads the `stat` line of a process.
fn living(text: &str) -> Option<String> {
    // The name, in parentheses, may contain anything; what follows may not.
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let started = fields.nth(18)?;
    (!matches!(state, "Z" | "X")).then(|| started.to_owned())
}
