//! What is tied to connections: execs, and the sandbox itself, end when the last connection they are tied to has ended.
//!
//! A connection that breaks is told from a client that died by nothing but time: where it can break, the client asks for
//! a grace and ties again on another one.

use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use coracle_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};
use coracle_wire::{Fault, FaultCode};

/// Connections at once; each costs a descriptor.
const STREAMS_MAX: usize = 512;
/// How long it is remembered that a client has gone whose exec was not started: that may still be on its way.
const REMEMBERED: Duration = Duration::from_secs(10);

/// All ties.
#[derive(Debug, Default)]
pub struct Ties(Mutex<Vec<Tie>>);

/// What a connection is to be tied to.
#[derive(Debug)]
pub struct Knot {
    /// The sandbox itself if absent.
    pub exec: Option<String>,
    pub epoch: u64,
    pub grace: Duration,
}

#[derive(Debug)]
struct Tie {
    knot: Knot,
    streams: Vec<UnixStream>,
    /// When it is over, unless somebody ties again.
    lapse: Option<Instant>,
    over: bool,
}

/// What has to end now, and when to look again.
#[derive(Debug, Default)]
pub struct Due {
    pub execs: Vec<String>,
    pub sandbox: bool,
    pub next: Option<Instant>,
}

impl Ties {
    /// Ties a connection. `started` tells that there is an exec of this name already: one that is not tied stays so.
    pub fn tie(&self, knot: Knot, started: bool, stream: UnixStream) -> Result<(), Fault> {
        let mut ties = self.lock();
        if ties.iter().map(|tie| tie.streams.len()).sum::<usize>() >= STREAMS_MAX {
            let message = format!("{STREAMS_MAX} connections have something tied to them");
            return Err(Fault { code: FaultCode::Limit, message, errno: None });
        }
        match ties.iter_mut().find(|tie| tie.knot.exec == knot.exec && !tie.over) {
            Some(tie) => {
                tie.streams.push(stream);
                tie.lapse = None;
            }
            None if started => {}
            None => {
                ties.retain(|tie| tie.knot.exec != knot.exec);
                ties.push(Tie { knot, streams: vec![stream], lapse: None, over: false });
            }
        }
        Ok(())
    }

    /// Unties what was tied under an epoch before `epoch`: it was handed over with the sandbox.
    pub fn untie_before(&self, epoch: u64) {
        self.lock().retain(|tie| tie.knot.epoch >= epoch);
    }

    /// Lets go of connections that have ended.
    pub fn notice_ends(&self, now: Instant) {
        for tie in self.lock().iter_mut().filter(|tie| !tie.over) {
            tie.streams.retain(|stream| !has_ended(stream));
            if tie.streams.is_empty() && tie.lapse.is_none() {
                tie.lapse = now.checked_add(tie.knot.grace);
            }
        }
    }

    /// Returns what nobody has tied again in time. Each is told once.
    pub fn due(&self, now: Instant) -> Due {
        let mut due = Due::default();
        let mut ties = self.lock();
        for tie in ties.iter_mut().filter(|tie| !tie.over) {
            match tie.lapse {
                Some(lapse) if lapse <= now => {
                    tie.over = true;
                    due.sandbox |= tie.knot.exec.is_none();
                    due.execs.extend(tie.knot.exec.clone());
                }
                lapse => due.next = due.next.into_iter().chain(lapse).min(),
            }
        }
        ties.retain(|tie| !tie.over || tie.lapse.is_some_and(|lapse| now < lapse + REMEMBERED));
        due
    }

    /// Forgets an exec that was told of.
    pub fn forget(&self, exec: &str) {
        self.lock().retain(|tie| !tie.over || tie.knot.exec.as_deref() != Some(exec));
    }

    /// Tells whether whoever is about to start this exec has gone.
    pub fn is_over(&self, exec: &str) -> bool {
        self.lock().iter().any(|tie| tie.over && tie.knot.exec.as_deref() == Some(exec))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Tie>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_ended(stream: &UnixStream) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(stream, PollFlags::RDHUP)], Some(&at_once)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knot(exec: Option<&str>, grace: Duration) -> Knot {
        Knot { exec: exec.map(str::to_owned), epoch: 1, grace }
    }

    fn tied(ties: &Ties, exec: Option<&str>, grace: Duration) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        ties.tie(knot(exec, grace), false, theirs).expect("there is room");
        ours
    }

    #[test]
    fn an_exec_ends_with_the_last_connection_it_is_tied_to() {
        let (ties, now) = (Ties::default(), Instant::now());
        let (one, other) = (tied(&ties, Some("e"), Duration::ZERO), tied(&ties, Some("e"), Duration::ZERO));

        drop(one);
        ties.notice_ends(now);
        assert!(ties.due(now).execs.is_empty());
        drop(other);
        ties.notice_ends(now);

        assert_eq!(ties.due(now).execs, ["e"]);
        assert!(ties.is_over("e"), "a start that comes later finds out");
        assert!(ties.due(now).execs.is_empty(), "it is told once");
    }

    #[test]
    fn who_ties_again_within_the_grace_keeps_it() {
        let (ties, now, grace) = (Ties::default(), Instant::now(), Duration::from_secs(30));
        drop(tied(&ties, None, grace));
        ties.notice_ends(now);
        let later = now + grace;

        assert_eq!(ties.due(now).next, Some(later));
        let _again = tied(&ties, None, grace);

        assert!(!ties.due(later).sandbox);
    }

    #[test]
    fn what_was_started_untied_stays_untied() {
        let (ties, now) = (Ties::default(), Instant::now());
        let (ours, theirs) = UnixStream::pair().expect("a pair");

        ties.tie(knot(Some("detached"), Duration::ZERO), true, theirs).expect("there is room");
        drop(ours);
        ties.notice_ends(now);

        assert!(ties.due(now).execs.is_empty());
    }

    #[test]
    fn a_newer_epoch_unties() {
        let (ties, now) = (Ties::default(), Instant::now());
        let stream = tied(&ties, Some("e"), Duration::ZERO);

        ties.untie_before(2);
        drop(stream);
        ties.notice_ends(now);

        assert!(ties.due(now).execs.is_empty());
    }

    #[test]
    fn a_client_that_has_gone_is_forgotten_at_last() {
        let (ties, now) = (Ties::default(), Instant::now());
        drop(tied(&ties, Some("e"), Duration::ZERO));
        ties.notice_ends(now);
        ties.due(now);

        ties.due(now + REMEMBERED);

        assert!(!ties.is_over("e"), "whoever starts one of this name now is somebody else");
    }
}
