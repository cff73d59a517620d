//! The leaf cgroup of one exec: its processes are born, counted and killed there, and cannot leave it.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use coracle_sys::rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use coracle_sys::rustix::io::{read, write};
use coracle_sys::signal;

use crate::weak::{self, Wall};

/// One exec's leaf. Once it is empty, another exec uses it again: making and removing one costs as much as forking.
/// Dropping it removes the leaf, if it is empty.
#[derive(Debug)]
pub struct Leaf {
    parent: OwnedFd,
    name: String,
    directory: OwnedFd,
    killed: Cell<bool>,
    /// The kernel has killed every process in it in one step, and kills any process born in it later.
    at_once: Cell<bool>,
}

impl Leaf {
    pub fn new(commands: BorrowedFd<'_>, serial: u64) -> io::Result<Self> {
        let name = format!("exec-{serial}");
        mkdirat(commands, &name, Mode::from_raw_mode(0o755))?;
        let directory = openat(commands, &name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self {
            parent: commands.try_clone_to_owned()?,
            name,
            directory,
            killed: Cell::new(false),
            at_once: Cell::new(false),
        })
    }

    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Tells whether a process is left. When in doubt, says yes.
    pub fn is_populated(&self) -> bool {
        self.contents("cgroup.events").is_none_or(|events| !events.lines().any(|line| line == "populated 0"))
    }

    /// Tells whether another exec may be born in it. The kernel kills every process forked into a group that was
    /// killed, however long ago.
    pub fn is_reusable(&self) -> bool {
        !self.killed.get()
    }

    /// Tells whether no process in it can run again.
    pub fn is_killed_at_once(&self) -> bool {
        self.at_once.get()
    }

    /// Kills every process in it at once.
    pub fn kill(&self) {
        if self.killed.replace(true) && weak::off(Wall::Killing) {
            return;
        }
        if weak::off(Wall::Killing) {
            let leader = self.contents("cgroup.procs").and_then(|text| text.lines().next()?.parse().ok());
            let _ = leader.map(|leader| signal::send_to_group(leader, 9));
            return;
        }
        let killed = openat(&self.directory, "cgroup.kill", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|file| write(&file, b"1"));
        self.at_once.set(killed.is_ok());
        if killed.is_err() {
            // A kernel before 5.14: kill the processes one by one, and again at the next look.
            self.signal(coracle_sys::rustix::process::Signal::KILL.as_raw());
        }
    }

    /// Sends a signal to every process in it now.
    pub fn signal(&self, number: i32) {
        for pid in self.processes() {
            // The process may have ended meanwhile. The kernel cannot have reused its pid, since only the guest
            // reaps.
            let _ = signal::send(pid, number);
        }
    }

    /// Returns the processes in it, without those that have ended.
    pub fn processes(&self) -> Vec<i32> {
        let listed = self.contents("cgroup.procs").unwrap_or_default();
        listed.lines().filter_map(|line| line.parse().ok()).collect()
    }

    fn contents(&self, name: &str) -> Option<String> {
        let file = openat(&self.directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut text = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match read(&file, &mut buffer).ok()? {
                0 => return String::from_utf8(text).ok(),
                length => text.extend_from_slice(&buffer[..length]),
            }
        }
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        // With processes kept in the background it is not empty and stays; the host removes it with the sandbox.
        let _ = unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR);
    }
}
