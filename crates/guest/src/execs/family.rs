//! The processes of one exec, whatever they do to get away: known by the cgroup they were born in or, where there are
//! no cgroups for us, by a namespace they were born in and have no right to leave, or by whom they descend from.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use coracle_sys::rustix::fs::{Dir, Mode, OFlags, fstat, open, stat};
use coracle_sys::rustix::process::Signal;
use coracle_sys::signal;

use super::cgroup::Leaf;
use super::subreaper::{self, Subreaper};

/// One exec's processes.
#[derive(Debug)]
pub enum Family {
    Born(Leaf),
    Marked(Mark),
    Subreaper(Subreaper),
}

impl Family {
    /// Tells whether a process is left. When in doubt there is.
    pub fn is_populated(&self) -> bool {
        match self {
            Self::Born(leaf) => leaf.is_populated(),
            Self::Marked(mark) => !mark.processes().is_ok_and(|left| left.is_empty()),
            Self::Subreaper(subreaper) => subreaper.is_populated(),
        }
    }

    /// Counts the processes of it that have not ended, as far as they can be seen.
    pub fn count(&self) -> u32 {
        let processes = match self {
            Self::Born(leaf) => leaf.processes(),
            Self::Marked(mark) => mark.processes().unwrap_or_default(),
            Self::Subreaper(subreaper) => subreaper.processes(),
        };
        processes.len() as u32
    }

    /// Kills every process of it. Those forked meanwhile are found at the next look.
    pub fn kill(&self) {
        match self {
            Self::Born(leaf) => leaf.kill(),
            Self::Marked(mark) => mark.kill(),
            Self::Subreaper(subreaper) => subreaper.kill(),
        }
    }

    /// Tells whether nothing of it that was seen now, after it was killed, runs again.
    pub fn seems_dead(&self) -> bool {
        match self {
            // Commands may be of users whose processes we are not shown.
            Self::Born(leaf) => leaf.is_killed_at_once() || !leaf.is_populated(),
            Self::Marked(mark) => mark.processes().is_ok_and(|left| left.into_iter().all(subreaper::is_dead)),
            Self::Subreaper(subreaper) => subreaper.seems_dead(),
        }
    }

    /// Sends a signal to every process of it now.
    pub fn signal(&self, number: i32) {
        match self {
            Self::Born(leaf) => leaf.signal(number),
            Self::Marked(mark) => mark.signal(number),
            Self::Subreaper(subreaper) => subreaper.signal(number),
        }
    }

    /// Returns the leaf if another exec may use it.
    pub fn into_reusable(self) -> Option<Leaf> {
        match self {
            Self::Born(leaf) => Some(leaf).filter(Leaf::is_reusable),
            Self::Marked(_) | Self::Subreaper(_) => None,
        }
    }
}

/// A namespace that stands for nothing but who was born in it: that of the host name, which no command may change.
#[derive(Debug)]
pub struct Mark {
    /// While it is open, no other namespace gets its number.
    _namespace: OwnedFd,
    number: u64,
    /// The forker, which has the mark of whatever it started last and is of no family.
    bearer: i32,
}

impl Mark {
    /// Returns the mark that children of this process are born with now.
    pub fn of(pid: i32) -> io::Result<Self> {
        let namespace = open(format!("/proc/{pid}/ns/uts"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let number = fstat(namespace.as_fd())?.st_ino;
        Ok(Self { _namespace: namespace, number, bearer: pid })
    }

    pub fn signal(&self, number: i32) {
        // What cannot be seen now is seen at the next look.
        for pid in self.processes().unwrap_or_default() {
            // It may have ended meanwhile; its number cannot have been given away, since only we reap.
            let _ = signal::send(pid, number);
        }
    }

    /// Stops all before killing any, or those not yet killed could fork faster than they die.
    fn kill(&self) {
        self.signal(Signal::STOP.as_raw());
        self.signal(Signal::KILL.as_raw());
    }

    /// Returns the processes with this mark. One that has ended has none.
    fn processes(&self) -> io::Result<Vec<i32>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut found = Vec::new();
        for entry in Dir::new(open("/proc", flags, Mode::empty())?)? {
            let entry = entry?;
            let pid = entry.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok());
            let Some(pid) = pid.filter(|pid| *pid != self.bearer) else { continue };
            if stat(format!("/proc/{pid}/ns/uts")).is_ok_and(|found| found.st_ino == self.number) {
                found.push(pid);
            }
        }
        Ok(found)
    }
}
