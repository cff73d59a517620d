//! The guest's side of a subreaper: finds, signals and kills the subreaper's descendants.

use std::cell::Cell;
use std::os::fd::OwnedFd;

use coracle_sys::rustix::fs::{Dir, Mode, OFlags, open};
use coracle_sys::rustix::io::read;
use coracle_sys::rustix::process::Signal;
use coracle_sys::signal;

use crate::weak::{self, Wall};

/// The guest's end of a subreaper.
#[derive(Debug)]
pub struct Subreaper {
    pid: i32,
    /// Where the subreaper writes how the leader ended.
    report: OwnedFd,
    /// How the subreaper ended; its family has ended with it.
    ended: Cell<Option<Result<i32, i32>>>,
    killed: Cell<bool>,
}

impl Subreaper {
    /// `report` must not block.
    pub fn new(pid: i32, report: OwnedFd) -> Self {
        Self { pid, report, ended: Cell::new(None), killed: Cell::new(false) }
    }

    pub fn report(&self) -> &OwnedFd {
        &self.report
    }

    pub fn is_populated(&self) -> bool {
        self.ended.get().is_none()
    }

    /// Tells whether every process that is left has been killed and is held by a debugger.
    pub fn seems_dead(&self) -> bool {
        !self.is_populated() || below(self.pid).into_iter().all(is_dead)
    }

    /// Returns its processes that have not ended.
    pub fn processes(&self) -> Vec<i32> {
        below(self.pid).into_iter().filter(|pid| !is_dead(*pid)).collect()
    }

    /// Records that a process has ended. Tells whether it was the subreaper.
    pub fn note_end(&self, pid: i32, exit: Result<i32, i32>) -> bool {
        let ours = pid == self.pid;
        if ours {
            self.ended.set(Some(exit));
        }
        ours
    }

    /// Returns how the leader ended, once it has. A subreaper that writes no report exits as the leader did; one
    /// that was killed has left its family behind.
    pub fn hear(&self) -> Option<Result<i32, i32>> {
        let mut word = [0; 5];
        match read(&self.report, &mut word) {
            Ok(5) => {
                let [kind, a, b, c, d] = word;
                let number = i32::from_le_bytes([a, b, c, d]);
                Some(if kind == 0 { Ok(number) } else { Err(number) })
            }
            _ => self.ended.get().inspect(|exit| {
                if exit.is_err() {
                    kill_strays();
                }
            }),
        }
    }

    pub fn signal(&self, number: i32) {
        signal_below(self.pid, number);
    }

    /// Stops all processes before it kills any; otherwise the remaining ones could fork faster than they die.
    pub fn kill(&self) {
        if weak::off(Wall::Killing) {
            if !self.killed.replace(true) {
                kill_leader(self.pid);
            }
            return;
        }
        self.signal(Signal::STOP.as_raw());
        self.signal(Signal::KILL.as_raw());
    }
}

/// Kills only the process group of the leader, as a supervisor without a subreaper would.
fn kill_leader(subreaper: i32) {
    let leader = processes().into_iter().find(|(_, parent)| *parent == subreaper);
    let _ = leader.map(|(leader, _)| signal::send_to_group(leader, Signal::KILL.as_raw()));
}

/// Signals every descendant of this process.
pub fn signal_below(ancestor: i32, number: i32) {
    for pid in below(ancestor) {
        // The process may have ended meanwhile. The kernel cannot have reused its pid, since only subreapers reap.
        let _ = signal::send(pid, number);
    }
}

/// Returns every descendant of this process.
fn below(ancestor: i32) -> Vec<i32> {
    let processes = processes();
    let mut below = vec![ancestor];
    let mut next = 0;
    while next < below.len() {
        let parent = below[next];
        below.extend(processes.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    below.split_off(1)
}

/// Kills processes that became the guest's own children because their subreaper is gone, with their descendants.
/// Those of the guest's own user are the forker and live subreapers; they stay.
fn kill_strays() {
    const GUEST: i32 = 1;
    for (pid, _) in processes().into_iter().filter(|(_, parent)| *parent == GUEST) {
        if user(pid).is_some_and(|user| user != crate::GUEST_ID) {
            signal_below(pid, Signal::KILL.as_raw());
            let _ = signal::send(pid, Signal::KILL.as_raw());
        }
    }
}

/// Returns every process and its parent.
fn processes() -> Vec<(i32, i32)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = open("/proc", flags, Mode::empty()).and_then(Dir::new);
    let Ok(listed) = listed else { return Vec::new() };
    let numbers = listed.filter_map(|entry| entry.ok()?.file_name().to_str().ok()?.parse::<i32>().ok());
    numbers.filter_map(|pid| Some((pid, field(pid, "PPid:")?))).collect()
}

/// Tells whether a killed process no longer runs: it waits to be reaped, or a debugger stops it as it exits. When
/// in doubt, says no.
pub fn is_dead(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().starts_with(['Z', 't']))
}

fn user(pid: i32) -> Option<u32> {
    field(pid, "Uid:").and_then(|uid| u32::try_from(uid).ok())
}

/// Returns the first number after a name in the process's `status` file. A program may choose its own name, but the
/// kernel escapes newlines in it, so it cannot forge a line.
fn field(pid: i32, name: &str) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
