//! Processes that outlive the leader of their exec because they were to be kept (`keep_background`).
//!
//! They are known by the exec they belong to: stopping that exec ends them too.

use std::time::{Duration, Instant};

use coracle_sys::rustix::process::Signal;

use super::family::Family;
use super::table::{Execs, Patience, Table};

/// How soon a kill is repeated, in case a process was missed.
pub(super) const KILL_AGAIN: Duration = Duration::from_millis(5);
/// How often somebody who waits for their end looks.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What one exec has left running.
#[derive(Debug)]
pub struct Kept {
    exec: String,
    /// The epoch it was started under.
    epoch: u64,
    family: Family,
    /// When the grace after TERM is over.
    kill_at: Option<Instant>,
}

impl Kept {
    pub fn new(exec: &str, epoch: u64, family: Family) -> Self {
        Self { exec: exec.to_owned(), epoch, family, kill_at: None }
    }

    pub fn family(&self) -> &Family {
        &self.family
    }

    fn stop(&mut self, grace: Duration, now: Instant) {
        match grace.is_zero() {
            true => self.family.kill(),
            false => self.family.signal(Signal::TERM.as_raw()),
        }
        self.kill_at = Some(now + grace.max(KILL_AGAIN));
    }

    /// Gives it back time that did not count.
    pub fn postpone(&mut self, by: Duration) {
        self.kill_at = self.kill_at.and_then(|at| at.checked_add(by));
    }

    /// Kills what has had its grace; returns when to look again.
    pub fn tick(&mut self, now: Instant) -> Option<Instant> {
        if self.kill_at.is_some_and(|at| at <= now) {
            self.family.kill();
            self.kill_at = Some(now + KILL_AGAIN);
        }
        self.kill_at
    }
}

impl Execs {
    /// Returns how many execs that have ended still have processes.
    pub fn background(&self) -> usize {
        let mut table = self.lock();
        table.forget_gone();
        table.kept.len()
    }

    /// Waits until nothing of an exec is left, once it was stopped.
    pub fn wait_for_kept(&self, exec: &str, patience: Patience) {
        let deadline = Instant::now() + patience.wait;
        // No signal tells of their end, so they are looked at now and then.
        let gone = |table: &mut Table, _| {
            table.forget_gone();
            let over = table.epoch > patience.epoch || !table.kept.iter().any(|kept| kept.exec == exec);
            over.then_some(())
        };
        while self.wait_until(LOOK_AGAIN, gone).is_none() && Instant::now() < deadline {}
    }
}

impl Table {
    /// Begins to end what an exec has left running.
    pub(super) fn stop_kept(&mut self, exec: &str, grace: Duration, now: Instant) {
        self.kept.iter_mut().filter(|kept| kept.exec == exec).for_each(|kept| kept.stop(grace, now));
    }

    /// Kills what was left in the background under an epoch before `epoch`. Tells whether anything of that epoch is left.
    pub(super) fn kill_kept(&mut self, epoch: u64) -> bool {
        self.forget_gone();
        let mut left = self.execs.values().any(|exec| exec.epoch < epoch && !exec.is_ended());
        for kept in self.kept.iter().filter(|kept| kept.epoch < epoch) {
            kept.family.kill();
            left = true;
        }
        left
    }

    pub(super) fn forget_gone(&mut self) {
        self.kept.retain(|kept| kept.family.is_populated());
    }
}
