//! The guest's side of a subreaper: finds, signals and kills the processes that descend from it.

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
    /// Where the subreaper tells how the leader ended.
    report: OwnedFd,
    /// How the subreaper has ended, and with it the family.
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

    /// Tells whether all that is left has been killed and is held by a debugger.
    pub fn seems_dead(&self) -> bool {
        !self.is_populated() || below(self.pid).into_iter().all(is_dead)
    }

    /// Returns the processes of it that have not ended.
    pub fn processes(&self) -> Vec<i32> {
        below(self.pid).into_iter().filter(|pid| !is_dead(*pid)).collect()
    }

    /// Takes note of a process that has ended; tells whether it was the subreaper.
    pub fn note_end(&self, pid: i32, exit: Result<i32, i32>) -> bool {
        let ours = pid == self.pid;
        if ours {
            self.ended.set(Some(exit));
        }
        ours
    }

    /// Returns how the leader ended, once it has. A subreaper that tells nothing ends as the leader did; one that was killed
    /// has left its family behind.
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

    /// Stops all before killing any, or those not yet killed could fork faster than they die.
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

/// Kills as those do who know of no descendants: the group of the one that was started.
fn kill_leader(subreaper: i32) {
    let leader = processes().into_iter().find(|(_, parent)| *parent == subreaper);
    let _ = leader.map(|(leader, _)| signal::send_to_group(leader, Signal::KILL.as_raw()));
}

/// Signals every process that descends from this one.
pub fn signal_below(ancestor: i32, number: i32) {
    for pid in below(ancestor) {
        // It may have ended meanwhile; its number cannot have been given away, since only subreapers reap.
        let _ = signal::send(pid, number);
    }
}

/// Returns every process that descends from this one.
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

/// Kills what became the guest's own child because its subreaper is gone: everything that is neither the guest's user nor
/// below one that is.
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

/// Tells whether a process that was killed runs no more: it waits to be reaped, or a debugger stops it on its way out.
/// When in doubt it runs.
pub fn is_dead(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().starts_with(['Z', 't']))
}

fn user(pid: i32) -> Option<u32> {
    field(pid, "Uid:").and_then(|uid| u32::try_from(uid).ok())
}

/// Returns the first number after a name in what the kernel shows of a process. The name of its program, which could
/// hold anything, has its newlines escaped there.
fn field(pid: i32, name: &str) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
