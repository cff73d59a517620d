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

/// The signal that ends processes which ignore TERM.
const KILLED: i32 = 9;

/// How long processes that outlive the leader may take to end by themselves, before the guest kills and counts
/// them: the last program of a pipeline may end a moment after its shell.
const PARTING: Duration = Duration::from_millis(10);

/// Why the guest ended an exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Deadline,
    Asked,
}

/// The stages of an exec's life.
#[derive(Debug)]
pub enum Phase {
    /// The forker is forking it; it has no pid yet.
    Starting,
    Running,
    /// The leader has ended; the guest is ending the processes it left behind.
    Clearing {
        exit: Result<i32, i32>,
    },
    Ended {
        ending: Ending,
        duration: Duration,
    },
}

/// A connection that reads an exec's output as it comes, so that the guest drops none of it before.
#[derive(Debug, Clone, Copy)]
pub struct Attendant {
    pub connection: u64,
    /// The epoch it reads under.
    pub epoch: u64,
    /// The last chunk it has received.
    pub since: u64,
}

/// One exec.
#[derive(Debug)]
pub struct Exec {
    pub argv: Vec<Vec<u8>>,
    pub epoch: u64,
    /// Distinguishes the same command from another under the same id.
    pub fingerprint: u64,
    pub phase: Phase,
    pub pid: i32,
    pub family: Option<Family>,
    pub spool: Spool,
    pub output_bytes: usize,
    /// Where input goes: a pipe, or the controlling side of the terminal.
    pub stdin: Option<Arc<OwnedFd>>,
    pub terminal: Option<Arc<OwnedFd>>,
    pub started: Instant,
    pub deadline: Option<Instant>,
    /// When processes that outlive the leader have to end.
    pub background_deadline: Option<Instant>,
    pub grace: Duration,
    pub keep_background: bool,
    pub cause: Option<Cause>,
    /// The shortest grace of the stops requested while it was being started.
    pub early_stop: Option<Duration>,
    pub stopping: Stopping,
    /// Until when processes left behind by the leader may end by themselves.
    pub parting: Option<Instant>,
    /// How many of them did not, and were killed.
    pub left_behind: Option<u32>,
    pub before: Reading,
    pub limits: Vec<LimitHit>,
    /// The connections that attend it, by number.
    pub attendants: HashMap<u64, Attendant>,
    /// Until then the guest expects a connection to attend it.
    pub expected: Option<Instant>,
}

impl Exec {
    /// Records the processes that were started for it. `early` is how its leader ended, if it already has.
    pub fn begin(&mut self, pid: i32, family: Family, early: Option<Result<i32, i32>>, now: Instant) {
        self.pid = pid;
        self.family = Some(family);
        self.phase = match early {
            Some(exit) => Phase::Clearing { exit },
            None => Phase::Running,
        };
        // A stop requested earlier takes effect only now. It also ends what the leader has left behind.
        if let (Some(cause), Some(grace)) = (self.cause, self.early_stop.take()) {
            self.stop(cause, grace, now);
        }
    }

    /// Begins to end it: TERM to all its processes now, KILL when the grace is over.
    pub fn stop(&mut self, cause: Cause, grace: Duration, now: Instant) {
        self.cause.get_or_insert(cause);
        let Some(family) = &self.family else {
            self.early_stop = Some(self.early_stop.map_or(grace, |earlier| earlier.min(grace)));
            return;
        };
        self.stopping.begin(family, grace, now);
    }

    /// Moves its deadlines by the time for which the clocks were stopped.
    pub fn postpone(&mut self, by: Duration) {
        self.started += by;
        self.stopping.postpone(by);
        let background = &mut self.background_deadline;
        for moment in [&mut self.deadline, background, &mut self.expected, &mut self.parting] {
            *moment = moment.and_then(|at| at.checked_add(by));
        }
    }

    /// Returns the last chunk that every attendant has; `None` if there is no attendant. Once the exec has ended,
    /// output waits for no attendant: background processes may write for ever.
    pub fn held(&self, now: Instant) -> Option<u64> {
        if self.is_ended() {
            return None;
        }
        let expected = self.expected.filter(|until| *until > now).map(|_| 0);
        self.attendants.values().map(|attendant| attendant.since).min().or(expected)
    }

    /// Ends the processes the leader has left behind. Unless the guest ends the whole exec, they get a moment to
    /// end by themselves: only those that would have stayed are worth reporting.
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

    /// Kills it if that is due, and stops waiting for dead processes that a debugger keeps.
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

    /// Decides how it ended, from how its leader ended and why the guest stopped it. Returns its family.
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
            // A shell reports a killed child as 137. With the counter risen, the kernel's OOM killer was the cause.
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
            // If the leader was killed, the other processes may be dying of the same signal.
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

    /// A family that no signal reaches and that never ends.
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
