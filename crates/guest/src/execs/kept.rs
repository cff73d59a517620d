//! Processes that outlive the leader of their exec because the caller wants them kept (`keep_background`).
//!
//! The guest knows them by their exec: stopping that exec ends them too.

use std::time::{Duration, Instant};

use coracle_wire::{Fault, FaultCode, LimitHit};

use super::exec::Exec;
use super::family::Family;
use super::stopping::{Look, Stopping};
use super::table::{Execs, Patience, Table};

/// How often a caller that waits for their end looks.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The processes that one exec has left running.
#[derive(Debug)]
pub struct Kept {
    exec: String,
    /// The epoch the exec was started under.
    epoch: u64,
    family: Family,
    stopping: Stopping,
    deadline: Option<Instant>,
    grace: Duration,
}

/// What a look at them leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Nothing,
    /// The deadline has just passed, and the guest has begun to stop them.
    Late,
    /// None is left, or only dead ones that a debugger keeps. The guest stops waiting for them.
    LetGo,
}

impl Kept {
    pub fn of(id: &str, exec: &Exec, family: Family) -> Self {
        Self {
            exec: id.to_owned(),
            epoch: exec.epoch,
            family,
            stopping: exec.stopping,
            deadline: exec.background_deadline,
            grace: exec.grace,
        }
    }

    pub fn family(&self) -> &Family {
        &self.family
    }

    fn stop(&mut self, grace: Duration, now: Instant) {
        self.stopping.begin(&self.family, grace, now);
    }

    /// Moves the deadlines by the time for which the clocks were stopped.
    pub fn postpone(&mut self, by: Duration) {
        self.stopping.postpone(by);
        self.deadline = self.deadline.and_then(|at| at.checked_add(by));
    }

    fn tick(&mut self, now: Instant) -> Due {
        if self.stopping.look(&self.family, now) == Look::LetGo {
            return Due::LetGo;
        }
        match self.deadline {
            Some(at) if at <= now && !self.family.is_populated() => Due::LetGo,
            Some(at) if at <= now => {
                self.deadline = None;
                self.stop(self.grace, now);
                Due::Late
            }
            _ => Due::Nothing,
        }
    }

    fn next(&self) -> Option<Instant> {
        self.stopping.next().into_iter().chain(self.deadline).min()
    }
}

impl Execs {
    /// Returns how many ended execs still have processes.
    pub fn background(&self) -> usize {
        let mut table = self.lock();
        table.forget_gone();
        table.kept.len()
    }

    /// Waits until no process of a stopped exec is left. Returns a fault if some are not dead in time.
    pub fn wait_for_kept(&self, exec: &str, patience: Patience<'_>) -> Result<(), Fault> {
        let deadline = Instant::now() + patience.wait;
        // No signal reports their end, so look now and then.
        let gone = |table: &mut Table, _| {
            table.forget_gone();
            let over = table.epoch > patience.epoch || !table.has_kept(exec) || patience.client.has_gone();
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
    /// Tells whether an exec has left processes running.
    pub(super) fn has_kept(&self, exec: &str) -> bool {
        self.kept.iter().any(|kept| kept.exec == exec)
    }

    /// Begins to end the processes an exec has left running.
    pub(super) fn stop_kept(&mut self, exec: &str, grace: Duration, now: Instant) {
        self.kept.iter_mut().filter(|kept| kept.exec == exec).for_each(|kept| kept.stop(grace, now));
    }

    /// Ends processes past their deadline, and stops waiting for dead ones that a debugger keeps. Returns when to
    /// look again.
    pub(super) fn tick_kept(&mut self, now: Instant) -> Option<Instant> {
        let execs = &mut self.execs;
        self.kept.retain_mut(|kept| match kept.tick(now) {
            Due::Nothing => true,
            Due::Late => {
                if let Some(exec) = execs.get_mut(&kept.exec) {
                    exec.limits.push(LimitHit::WallTime);
                }
                true
            }
            Due::LetGo => false,
        });
        self.kept.iter().filter_map(Kept::next).min()
    }

    /// Begins to kill background processes of epochs before `epoch`.
    pub(super) fn stop_kept_before(&mut self, epoch: u64, now: Instant) {
        let earlier = self.kept.iter_mut().filter(|kept| kept.epoch < epoch);
        earlier.for_each(|kept| kept.stop(Duration::ZERO, now));
    }

    /// Kills background processes of epochs before `epoch`. Tells whether any of them is left.
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

#[cfg(test)]
mod tests {
    use super::super::exec::tests::{family, starting};
    use super::*;

    #[test]
    fn what_is_kept_has_the_deadline_and_the_grace_of_its_exec() {
        let (now, span, grace) = (Instant::now(), Duration::from_secs(60), Duration::from_millis(500));
        let exec = Exec { background_deadline: Some(now + span), grace, ..starting(now) };
        let mut table = Table::default();
        table.kept.push(Kept::of("e", &exec, family()));
        table.execs.insert("e".to_owned(), exec);

        let first = table.tick_kept(now);
        let late = table.tick_kept(now + span);

        assert_eq!(first, Some(now + span));
        assert_eq!(late, Some(now + span + grace), "told to end, killed after the grace");
        assert_eq!(table.execs["e"].limits, [LimitHit::WallTime]);
    }

    #[test]
    fn time_that_stood_still_does_not_count() {
        let (now, span) = (Instant::now(), Duration::from_secs(60));
        let exec = Exec { background_deadline: Some(now + span), ..starting(now) };
        let mut table = Table::default();
        table.kept.push(Kept::of("e", &exec, family()));

        table.kept.iter_mut().for_each(|kept| kept.postpone(span));

        assert_eq!(table.tick_kept(now + span), Some(now + span + span));
    }
}
