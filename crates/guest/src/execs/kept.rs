//! Processes that outlive the leader of their exec because they were to be kept (`keep_background`).
//!
//! They are known by the exec they belong to: stopping that exec ends them too.

use std::time::{Duration, Instant};

use coracle_wire::{Fault, FaultCode};

use super::family::Family;
use super::stopping::{Look, Stopping};
use super::table::{Execs, Patience, Table};

/// How often somebody who waits for their end looks.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What one exec has left running.
#[derive(Debug)]
pub struct Kept {
    exec: String,
    /// The epoch it was started under.
    epoch: u64,
    family: Family,
    stopping: Stopping,
}

impl Kept {
    pub fn new(exec: &str, epoch: u64, family: Family, stopping: Stopping) -> Self {
        Self { exec: exec.to_owned(), epoch, family, stopping }
    }

    pub fn family(&self) -> &Family {
        &self.family
    }

    fn stop(&mut self, grace: Duration, now: Instant) {
        self.stopping.begin(&self.family, grace, now);
    }

    /// Gives it back time that did not count.
    pub fn postpone(&mut self, by: Duration) {
        self.stopping.postpone(by);
    }
}

impl Execs {
    /// Returns how many execs that have ended still have processes.
    pub fn background(&self) -> usize {
        let mut table = self.lock();
        table.forget_gone();
        table.kept.len()
    }

    /// Waits until nothing of an exec is left, once it was stopped. A fault if some of it is not dead in time.
    pub fn wait_for_kept(&self, exec: &str, patience: Patience) -> Result<(), Fault> {
        let deadline = Instant::now() + patience.wait;
        // No signal tells of their end, so they are looked at now and then.
        let gone = |table: &mut Table, _| {
            table.forget_gone();
            let over = table.epoch > patience.epoch || !table.has_kept(exec);
            over.then_some(())
        };
        while self.wait_until(LOOK_AGAIN, gone).is_none() {
            if Instant::now() >= deadline {
                let message = format!("what exec `{exec}` left running could not be ended yet");
                return Err(Fault { code: FaultCode::Internal, message, errno: None });
            }
        }
        Ok(())
    }
}

impl Table {
    /// Tells whether an exec has left something running.
    pub(super) fn has_kept(&self, exec: &str) -> bool {
        self.kept.iter().any(|kept| kept.exec == exec)
    }

    /// Begins to end what an exec has left running.
    pub(super) fn stop_kept(&mut self, exec: &str, grace: Duration, now: Instant) {
        self.kept.iter_mut().filter(|kept| kept.exec == exec).for_each(|kept| kept.stop(grace, now));
    }

    /// Kills what has had its grace, and lets go of what a debugger keeps; returns when to look again.
    pub(super) fn tick_kept(&mut self, now: Instant) -> Option<Instant> {
        self.kept.retain_mut(|kept| kept.stopping.look(&kept.family, now) == Look::Wait);
        self.kept.iter().filter_map(|kept| kept.stopping.next()).min()
    }

    /// Begins to kill what was left in the background under an epoch before `epoch`.
    pub(super) fn stop_kept_before(&mut self, epoch: u64, now: Instant) {
        let earlier = self.kept.iter_mut().filter(|kept| kept.epoch < epoch);
        earlier.for_each(|kept| kept.stop(Duration::ZERO, now));
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
