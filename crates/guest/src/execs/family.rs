//! The processes of one exec, which cannot leave it: the guest knows them by the cgroup they were born in. Without
//! cgroups, it knows them by a namespace they were born in and may not leave, or by the process they descend from.

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
    /// Tells whether a process is left. When in doubt, says yes.
    pub fn is_populated(&self) -> bool {
        match self {
            Self::Born(leaf) => leaf.is_populated(),
            Self::Marked(mark) => !mark.processes().is_ok_and(|left| left.is_empty()),
            Self::Subreaper(subreaper) => subreaper.is_populated(),
        }
    }

    /// Counts its processes that have not ended, as far as the guest can see them.
    pub fn count(&self) -> u32 {
        let processes = match self {
            Self::Born(leaf) => leaf.processes(),
            Self::Marked(mark) => mark.processes().unwrap_or_default(),
            Self::Subreaper(subreaper) => subreaper.processes(),
        };
        processes.len() as u32
    }

    /// Kills all its processes. The next look finds those forked meanwhile.
    pub fn kill(&self) {
        match self {
            Self::Born(leaf) => leaf.kill(),
            Self::Marked(mark) => mark.kill(),
            Self::Subreaper(subreaper) => subreaper.kill(),
        }
    }

    /// Tells whether every process of it that the guest sees is dead, after a kill.
    pub fn seems_dead(&self) -> bool {
        match self {
            // A command may run as a user whose processes the guest cannot see.
            Self::Born(leaf) => leaf.is_killed_at_once() || !leaf.is_populated(),
            Self::Marked(mark) => mark.processes().is_ok_and(|left| left.into_iter().all(subreaper::is_dead)),
            Self::Subreaper(subreaper) => subreaper.seems_dead(),
        }
    }

    /// Sends a signal to all its processes now.
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

/// A namespace that only marks which processes were born in it: the UTS namespace, whose host name no command may
/// change.
#[derive(Debug)]
pub struct Mark {
    /// While it is open, the kernel gives its number to no other namespace.
    _namespace: OwnedFd,
    number: u64,
    /// The forker, which has the mark of the command it started last and belongs to no family.
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
        // The next look finds those that cannot be seen now.
        for pid in self.processes().unwrap_or_default() {
            // The process may have ended meanwhile. The kernel cannot have reused its pid, since only the guest
            // reaps.
            let _ = signal::send(pid, number);
        }
    }

    /// Stops all processes before it kills any; otherwise the remaining ones could fork faster than they die.
    fn kill(&self) {
        self.signal(Signal::STOP.as_raw());
        self.signal(Signal::KILL.as_raw());
    }

    /// Returns the processes with this mark. A process that has ended has none.
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
