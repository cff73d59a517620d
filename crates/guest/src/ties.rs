//! Ties execs, and the sandbox itself, to connections: they end when the last connection they are tied to has
//! ended.
//!
//! The guest cannot tell a broken connection from a dead client, except by time. Where connections can break, the
//! client asks for a grace and ties again on another connection.

use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use coracle_wire::{Fault, FaultCode};

use crate::client::has_ended;

/// Most tied connections at once; each costs a descriptor.
const STREAMS_MAX: usize = 512;
/// How long the guest remembers that the client of an exec has gone before the start arrived: the start may still
/// be on its way.
const REMEMBERED: Duration = Duration::from_secs(10);

/// All ties. Take this lock after that of the execs, never before it.
#[derive(Debug, Default)]
pub struct Ties(Mutex<Vec<Tie>>);

/// What a connection is to be tied to.
#[derive(Debug)]
pub struct Target {
    /// The sandbox itself if absent.
    pub exec: Option<String>,
    pub epoch: u64,
    pub grace: Duration,
}

/// Whether the target existed before the tie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Already {
    Started,
    /// The exec is about to be started, or the target is the sandbox itself.
    NotStarted,
}

#[derive(Debug)]
struct Tie {
    target: Target,
    streams: Vec<UnixStream>,
    /// When the tie is over, unless a client ties again.
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
    /// Ties a connection. Calls `watch` with it if it is tied to something now; if `watch` fails, ties nothing.
    pub fn tie(
        &self,
        target: Target,
        already: Already,
        stream: UnixStream,
        watch: impl FnOnce(&UnixStream) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut ties = self.lock();
        if ties.iter().map(|tie| tie.streams.len()).sum::<usize>() >= STREAMS_MAX {
            let message = format!("{STREAMS_MAX} connections have something tied to them");
            return Err(Fault { code: FaultCode::Limit, message, errno: None });
        }
        match ties.iter_mut().find(|tie| tie.target.exec == target.exec && !tie.over) {
            Some(tie) => {
                watch(&stream)?;
                tie.streams.push(stream);
                tie.lapse = None;
            }
            // An exec that runs untied stays untied.
            None if already == Already::Started => {}
            None => {
                watch(&stream)?;
                ties.retain(|tie| tie.target.exec != target.exec);
                ties.push(Tie { target, streams: vec![stream], lapse: None, over: false });
            }
        }
        Ok(())
    }

    /// Removes ties made under an epoch before `epoch`: their execs were handed over with the sandbox.
    pub fn untie_before(&self, epoch: u64) {
        self.lock().retain(|tie| tie.target.epoch >= epoch);
    }

    /// Drops connections that have ended.
    pub fn notice_ends(&self, now: Instant) {
        for tie in self.lock().iter_mut().filter(|tie| !tie.over) {
            tie.streams.retain(|stream| !has_ended(stream));
            if tie.streams.is_empty() && tie.lapse.is_none() {
                tie.lapse = now.checked_add(tie.target.grace);
            }
        }
    }

    /// Returns what was not tied again in time. Returns each only once.
    pub fn due(&self, now: Instant) -> Due {
        let mut due = Due::default();
        let mut ties = self.lock();
        for tie in ties.iter_mut().filter(|tie| !tie.over) {
            match tie.lapse {
                Some(lapse) if lapse <= now => {
                    tie.over = true;
                    due.sandbox |= tie.target.exec.is_none();
                    due.execs.extend(tie.target.exec.clone());
                }
                lapse => due.next = due.next.into_iter().chain(lapse).min(),
            }
        }
        ties.retain(|tie| !tie.over || tie.lapse.is_some_and(|lapse| now < lapse + REMEMBERED));
        due
    }

    /// Removes the tie of an exec, so that no connection ends it, and forgets that its client has gone.
    pub fn untie(&self, exec: &str) {
        self.lock().retain(|tie| tie.target.exec.as_deref() != Some(exec));
    }

    /// Forgets that the client of an exec has gone: the exec was stopped, or is another client's.
    pub fn forget(&self, exec: &str) {
        self.lock().retain(|tie| !tie.over || tie.target.exec.as_deref() != Some(exec));
    }

    /// Tells whether the client that is about to start this exec has gone.
    pub fn is_over(&self, exec: &str) -> bool {
        self.lock().iter().any(|tie| tie.over && tie.target.exec.as_deref() == Some(exec))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Tie>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use coracle_sys::rustix;
    use coracle_sys::rustix::event::{Timespec, epoll};

    use super::*;

    fn target(exec: Option<&str>, grace: Duration) -> Target {
        Target { exec: exec.map(str::to_owned), epoch: 1, grace }
    }

    fn tied(ties: &Ties, exec: Option<&str>, grace: Duration) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        ties.tie(target(exec, grace), Already::NotStarted, theirs, |_| Ok(())).expect("there is room");
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
        assert!(ties.due(now).execs.is_empty(), "each is returned once");
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

        let target = target(Some("detached"), Duration::ZERO);
        ties.tie(target, Already::Started, theirs, |_| panic!("nothing is tied to it"))
            .expect("there is room");
        drop(ours);
        ties.notice_ends(now);

        assert!(ties.due(now).execs.is_empty());
    }

    #[test]
    fn nothing_is_tied_to_a_connection_whose_end_would_not_be_noticed() {
        let (ties, now) = (Ties::default(), Instant::now());
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let fault = Fault { code: FaultCode::Internal, message: String::new(), errno: None };

        let tied =
            ties.tie(target(None, Duration::ZERO), Already::NotStarted, theirs, |_| Err(fault.clone()));
        drop(ours);
        ties.notice_ends(now);

        assert_eq!(tied, Err(fault));
        assert!(!ties.due(now).sandbox);
    }

    /// An untied start of the same id is another client's.
    #[test]
    fn what_is_untied_ends_with_no_connection_of_before() {
        let (ties, now) = (Ties::default(), Instant::now());
        drop(tied(&ties, Some("gone"), Duration::ZERO));
        drop(tied(&ties, Some("going"), Duration::from_secs(30)));
        ties.notice_ends(now);
        ties.due(now);

        ties.untie("gone");
        ties.untie("going");

        assert!(!ties.is_over("gone"));
        assert!(ties.due(now + Duration::from_secs(60)).execs.is_empty());
    }

    /// So a tie need not look whether its client has left meanwhile.
    #[test]
    fn the_kernel_reports_an_end_from_before_a_connection_is_watched() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let watching = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
        let ends = epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        drop(ours);

        epoll::add(&watching, &theirs, epoll::EventData::new_u64(7), ends).expect("it can be watched");

        let mut events = Vec::with_capacity(1);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = epoll::wait(&watching, rustix::buffer::spare_capacity(&mut events), Some(&at_once));
        assert_eq!(count, Ok(1));
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

        assert!(!ties.is_over("e"), "an exec of this name started now is another client's");
    }
}
