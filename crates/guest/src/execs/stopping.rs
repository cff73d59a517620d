//! Ends the processes of one exec in steps: TERM, a grace, KILL until they are gone.

use std::time::{Duration, Instant};

use coracle_sys::rustix::process::Signal;

use super::family::Family;

/// How soon the guest repeats a kill, in case it missed a process.
const KILL_AGAIN: Duration = Duration::from_millis(5);

/// The times that matter. Nothing stops before [`Stopping::begin`].
#[derive(Debug, Clone, Copy)]
pub struct Stopping {
    /// When the grace after TERM is over, or when to repeat the kill.
    kill_at: Option<Instant>,
    /// Since when all processes were seen dead without being gone.
    dead_since: Option<Instant>,
    /// How long dead processes may take to be gone; see [`super::ExecContext::dead_max`].
    dead_max: Option<Duration>,
}

/// The result of a look at the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Some are left to wait for.
    Wait,
    /// All are dead and a debugger keeps them. The guest stops waiting for them.
    LetGo,
}

impl Stopping {
    pub fn new(dead_max: Option<Duration>) -> Self {
        Self { kill_at: None, dead_since: None, dead_max }
    }

    /// Sends TERM to all now, and KILL when the grace is over. A kill that is due sooner stays due: a second stop
    /// must not postpone a deadline.
    pub fn begin(&mut self, family: &Family, grace: Duration, now: Instant) {
        if grace.is_zero() {
            self.kill(family, now);
        } else {
            family.signal(Signal::TERM.as_raw());
            self.kill_by(now + grace);
        }
    }

    /// Sends KILL to all now, and again shortly in case it missed one.
    pub fn kill(&mut self, family: &Family, now: Instant) {
        family.kill();
        // A look that is due stays due, however often this is called meanwhile.
        self.kill_by(now + KILL_AGAIN);
    }

    /// Makes sure that a look, with its kill, happens by then at the latest.
    pub fn kill_by(&mut self, until: Instant) {
        self.kill_at = Some(self.kill_at.map_or(until, |at| at.min(until)));
    }

    /// Kills processes whose grace is over.
    pub fn look(&mut self, family: &Family, now: Instant) -> Look {
        if self.kill_at.is_none_or(|at| at > now) {
            return Look::Wait;
        }
        self.kill_at = None;
        self.kill(family, now);
        // A debugger in another exec can keep dead processes from us for as long as it likes. Without a debugger
        // they soon disappear, and the guest must not report an exec as ended before they are gone.
        let Some(dead_max) = self.dead_max else { return Look::Wait };
        if !family.seems_dead() {
            self.dead_since = None;
            return Look::Wait;
        }
        match now.saturating_duration_since(*self.dead_since.get_or_insert(now)) < dead_max {
            true => Look::Wait,
            false => Look::LetGo,
        }
    }

    /// Returns when to look again.
    pub fn next(&self) -> Option<Instant> {
        self.kill_at
    }

    /// Moves the times by the time for which the clocks were stopped.
    pub fn postpone(&mut self, by: Duration) {
        for moment in [&mut self.kill_at, &mut self.dead_since] {
            *moment = moment.and_then(|at| at.checked_add(by));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::exec::tests::family;
    use super::*;

    const DEAD_MAX: Duration = Duration::from_secs(1);

    #[test]
    fn the_dead_are_let_go_of_only_where_a_debugger_may_keep_them() {
        let (now, family) = (Instant::now(), family());
        for (dead_max, expected) in [(None, Look::Wait), (Some(DEAD_MAX), Look::LetGo)] {
            let mut stopping = Stopping::new(dead_max);
            stopping.begin(&family, Duration::ZERO, now);
            let first = now + KILL_AGAIN;

            assert_eq!(stopping.look(&family, first), Look::Wait);
            // As the guest does each time it sees that the leader has ended.
            stopping.kill(&family, first + DEAD_MAX);
            assert_eq!(stopping.look(&family, first + DEAD_MAX), expected, "{dead_max:?}");
        }
    }

    #[test]
    fn another_stop_does_not_put_off_a_kill_that_is_due() {
        let (now, family, grace) = (Instant::now(), family(), Duration::from_secs(1));
        let mut stopping = Stopping::new(None);
        stopping.begin(&family, grace, now);

        stopping.begin(&family, grace * 10, now);
        assert_eq!(stopping.next(), Some(now + grace));
        stopping.begin(&family, grace / 2, now);
        assert_eq!(stopping.next(), Some(now + grace / 2));
    }

    #[test]
    fn time_that_stood_still_does_not_count() {
        let (now, family, pause) = (Instant::now(), family(), Duration::from_secs(60));
        let mut stopping = Stopping::new(Some(DEAD_MAX));
        stopping.begin(&family, Duration::ZERO, now);
        let first = now + KILL_AGAIN;
        assert_eq!(stopping.look(&family, first), Look::Wait);

        stopping.postpone(pause);

        assert_eq!(stopping.look(&family, first + pause + KILL_AGAIN), Look::Wait);
        assert_eq!(stopping.look(&family, first + pause + DEAD_MAX), Look::LetGo);
    }
}
