//! One exec, from its start to its end.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coracle_wire::{Ending, ExecState, LimitHit};

use super::counters::Reading;
use super::family::Family;
use super::spool::Spool;
use super::stopping::{Look, Stopping};

/// The signal that ends what does not end otherwise.
const KILLED: i32 = 9;

/// What those a leader leaves behind have to end by themselves, before they are killed and counted: the end of a pipeline
/// may come a moment after its shell.
const PARTING: Duration = Duration::from_millis(10);

/// Why we ended an exec ourselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Deadline,
    Asked,
}

/// How far an exec is.
#[derive(Debug)]
pub enum Phase {
    /// Being forked; it has no pid yet.
    Starting,
    Running,
    /// The leader has ended; what it left behind is dying.
    Clearing {
        exit: Result<i32, i32>,
    },
    Ended {
        ending: Ending,
        duration: Duration,
    },
}

/// Who reads the output of an exec as it comes, so that none of it is dropped before.
#[derive(Debug, Clone, Copy)]
pub struct Attendant {
    pub connection: u64,
    /// The epoch it reads under.
    pub epoch: u64,
    /// The last chunk it has.
    pub since: u64,
}

/// One exec.
#[derive(Debug)]
pub struct Exec {
    pub argv: Vec<Vec<u8>>,
    pub epoch: u64,
    /// Tells the same command from another under the same id.
    pub fingerprint: u64,
    pub phase: Phase,
    pub pid: i32,
    pub family: Option<Family>,
    pub spool: Spool,
    pub output_bytes: usize,
    /// Where input goes: a pipe, or the terminal's controller.
    pub stdin: Option<Arc<OwnedFd>>,
    pub terminal: Option<Arc<OwnedFd>>,
    pub started: Instant,
    pub deadline: Option<Instant>,
    /// When what outlives the leader has to end.
    pub background_deadline: Option<Instant>,
    pub grace: Duration,
    pub keep_background: bool,
    pub cause: Option<Cause>,
    /// The shortest grace it was to be stopped with while it was being started.
    pub early_stop: Option<Duration>,
    pub stopping: Stopping,
    /// Until when what the leader has left behind may end by itself.
    pub parting: Option<Instant>,
    /// How many processes did not, and had to be killed.
    pub left_behind: Option<u32>,
    pub before: Reading,
    pub limits: Vec<LimitHit>,
    /// Those who attend it, by their connection.
    pub attendants: HashMap<u64, Attendant>,
    /// Until then someone is expected to attend it.
    pub expected: Option<Instant>,
}

impl Exec {
    /// Takes note of what was started for it. `early` tells how its leader has ended, if it has.
    pub fn begin(&mut self, pid: i32, family: Family, early: Option<Result<i32, i32>>, now: Instant) {
        self.pid = pid;
        self.family = Some(family);
        self.phase = match early {
            Some(exit) => Phase::Clearing { exit },
            None => Phase::Running,
        };
        // Only now is there something to stop: what the leader has left behind, too.
        if let (Some(cause), Some(grace)) = (self.cause, self.early_stop.take()) {
            self.stop(cause, grace, now);
        }
    }

    /// Begins to end it: TERM to all of it now, KILL when the grace is over.
    pub fn stop(&mut self, cause: Cause, grace: Duration, now: Instant) {
        self.cause.get_or_insert(cause);
        let Some(family) = &self.family else {
            self.early_stop = Some(self.early_stop.map_or(grace, |earlier| earlier.min(grace)));
            return;
        };
        self.stopping.begin(family, grace, now);
    }

    /// Gives it back time that did not count.
    pub fn postpone(&mut self, by: Duration) {
        self.started += by;
        self.stopping.postpone(by);
        let background = &mut self.background_deadline;
        for moment in [&mut self.deadline, background, &mut self.expected, &mut self.parting] {
            *moment = moment.and_then(|at| at.checked_add(by));
        }
    }

    /// Returns the last chunk everyone who attends it has; `None` if nobody does. Once it has ended nobody waits for what
    /// comes after: processes that were let live may write for ever.
    pub fn held(&self, now: Instant) -> Option<u64> {
        if self.is_ended() {
            return None;
        }
        let expected = self.expected.filter(|until| *until > now).map(|_| 0);
        self.attendants.values().map(|attendant| attendant.since).min().or(expected)
    }

    /// Ends what the leader has left behind. Unless we end all of it, those on their own way out have a moment for it: only
    /// what would have stayed is worth a word.
    pub fn clear(&mut self, now: Instant) {
        let Some(family) = &self.family else { return };
        if self.cause.is_none() && self.left_behind.is_none() {
            let until = *self.parting.get_or_insert(now + PARTING);
            if now < until {
                self.stopping.kill_by(until);
                return;
            }
            self.left_behind = Some(family.count());
        }
        self.stopping.kill(family, now);
    }

    /// Acts on what is due by `now`; returns when to look again.
    pub fn tick(&mut self, now: Instant) -> Option<Instant> {
        if !matches!(self.phase, Phase::Running | Phase::Clearing { .. }) {
            return None;
        }
        self.look(now);
        if self.cause.is_none()
            && self.deadline.is_some_and(|at| at <= now)
            && matches!(self.phase, Phase::Running)
        {
            self.stop(Cause::Deadline, self.grace, now);
        }
        let deadline = self.deadline.filter(|_| self.cause.is_none());
        [self.stopping.next(), deadline].into_iter().flatten().min()
    }

    /// Kills it if that is due, and lets go of what a debugger keeps.
    fn look(&mut self, now: Instant) {
        let Some(family) = &self.family else { return };
        if self.stopping.look(family, now) == Look::Wait {
            return;
        }
        self.family = None;
        if matches!(self.phase, Phase::Running) {
            self.phase = Phase::Clearing { exit: Err(KILLED) };
        }
    }

    /// Says how it ended, from how its leader did and what was done to it. Returns its family.
    pub fn conclude(&mut self, exit: Result<i32, i32>, after: Reading) -> Option<Family> {
        if after.memory > self.before.memory {
            self.limits.push(LimitHit::Memory);
        }
        if after.pids > self.before.pids {
            self.limits.push(LimitHit::Pids);
        }
        if self.spool.truncation().is_some() {
            self.limits.push(LimitHit::Output);
        }
        let killed = matches!(exit, Err(KILLED)) || exit == Ok(128 + KILLED);
        let ending = match (self.cause, exit) {
            (Some(Cause::Deadline), _) => {
                self.limits.push(LimitHit::WallTime);
                Ending::TimedOut
            }
            (Some(Cause::Asked), _) => Ending::Stopped,
            // A shell reports a killed child as 137; with the counter risen that is what happened.
            (None, _) if killed && after.memory > self.before.memory => Ending::OomKilled,
            (None, Ok(code)) => Ending::Exited(code),
            (None, Err(signal)) => Ending::Signalled(signal),
        };
        self.phase = Phase::Ended { ending, duration: self.started.elapsed() };
        self.stdin = None;
        self.terminal = None;
        self.family.take()
    }

    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended { .. })
    }

    /// Returns what a caller may know of it now.
    pub fn state(&self) -> ExecState {
        let (ending, duration) = match self.phase {
            Phase::Ended { ending, duration } => (Some(ending), duration),
            _ => (None, self.started.elapsed()),
        };
        let (stdout_bytes, stderr_bytes) = self.spool.bytes();
        ExecState {
            ending,
            limits: self.limits.clone(),
            stdout_bytes,
            stderr_bytes,
            truncation: self.spool.truncation(),
            duration_ms: duration.as_millis() as u64,
            last_seq: self.spool.last_seq(),
            age_ms: Some(self.started.elapsed().as_millis() as u64),
            // Of a leader that was killed the others may be dying of the same signal.
            ended_background: self
                .left_behind
                .filter(|left| *left > 0 && matches!(ending, Some(Ending::Exited(_)))),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use coracle_sys::rustix::pipe::pipe;

    use super::super::subreaper::Subreaper;
    use super::*;

    /// An exec that is being started.
    pub fn starting(now: Instant) -> Exec {
        Exec {
            argv: Vec::new(),
            epoch: 1,
            fingerprint: 0,
            phase: Phase::Starting,
            pid: 0,
            family: None,
            spool: Spool::new(),
            output_bytes: 0,
            stdin: None,
            terminal: None,
            started: now,
            deadline: None,
            background_deadline: None,
            grace: Duration::from_secs(600),
            keep_background: false,
            cause: None,
            early_stop: None,
            stopping: Stopping::new(None),
            parting: None,
            left_behind: None,
            before: Reading::default(),
            limits: Vec::new(),
            attendants: HashMap::new(),
            expected: None,
        }
    }

    /// A family that signals reach nobody of, and that stays.
    pub fn family() -> Family {
        let (report, _) = pipe().expect("a pipe");
        Family::Subreaper(Subreaper::new(i32::MAX, report))
    }

    #[test]
    fn a_stop_that_comes_during_the_start_has_the_grace_it_was_asked_with() {
        let (now, grace) = (Instant::now(), Duration::from_millis(500));
        for early in [None, Some(Ok(0))] {
            for keep_background in [false, true] {
                let mut exec = Exec { keep_background, ..starting(now) };

                exec.stop(Cause::Asked, grace, now);
                exec.begin(7, family(), early, now);

                assert_eq!(exec.stopping.next(), Some(now + grace), "{early:?} {keep_background}");
                assert_eq!(matches!(exec.phase, Phase::Clearing { .. }), early.is_some());
            }
        }
    }

    #[test]
    fn what_a_leader_leaves_behind_has_a_moment_to_end_unless_all_of_it_is_ended() {
        let now = Instant::now();
        let mut exec = starting(now);
        exec.begin(7, family(), Some(Ok(0)), now);

        exec.clear(now);
        assert_eq!((exec.left_behind, exec.stopping.next()), (None, Some(now + PARTING)));
        exec.clear(now + PARTING / 2);
        assert_eq!(exec.left_behind, None);
        exec.clear(now + PARTING);
        assert_eq!(exec.left_behind, Some(0));

        let mut stopped = starting(now);
        stopped.begin(7, family(), Some(Ok(0)), now);
        stopped.stop(Cause::Asked, Duration::ZERO, now);
        stopped.clear(now);
        assert!(stopped.left_behind.is_none() && stopped.stopping.next() < Some(now + PARTING));
    }

    #[test]
    fn the_shortest_grace_asked_for_during_the_start_counts() {
        let now = Instant::now();
        let mut exec = starting(now);

        for millis in [700, 500, 600] {
            exec.stop(Cause::Asked, Duration::from_millis(millis), now);
        }
        exec.begin(7, family(), None, now);

        assert_eq!(exec.stopping.next(), Some(now + Duration::from_millis(500)));
    }
}
