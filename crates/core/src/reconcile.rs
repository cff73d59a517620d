//! Decides what to do when records and reality disagree: a full join of both. It only decides; the janitor, which
//! carries a plan out, takes the work lock of each sandbox first and reads its record again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::backend::{Found, GuestEnd};
use crate::clock::Timestamp;
use crate::ids::SandboxId;
use crate::lifecycle::State;
use crate::record::Record;
use crate::spec::OnIdle;

/// How long an object without a record is kept for a person to look at.
pub const QUARANTINE: Duration = Duration::from_secs(24 * 3600);

/// How long the record of a lost sandbox, and its session key, are kept so that callers can ask about it. Lists show
/// an expired one for as long.
pub const LOST_KEPT: Duration = Duration::from_secs(3600);

/// How long before a sleeper ends its owner is told.
pub const ANNOUNCED: Duration = Duration::from_secs(24 * 3600);

/// What a plan depends on besides records and found objects.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The time observed until now: setting a clock makes nothing old.
    pub observed: Timestamp,
    /// The id of the current boot; absent where sandboxes do not end with this machine.
    pub boot: Option<&'a str>,
    /// Sandboxes that another process works on, and those whose record changed during the survey. The plan never
    /// touches them.
    pub busy: &'a BTreeSet<SandboxId>,
    /// How long quarantined sandboxes are kept; [`QUARANTINE`] unless configured.
    pub quarantine: Duration,
    /// How long records of ended sandboxes are kept.
    pub retention: Duration,
    /// How long hibernated sandboxes are kept; for ever if absent.
    pub keep: Option<Duration>,
}

impl Facts<'_> {
    /// Returns the observed time before which ended records are forgotten.
    ///
    /// Forget only after the plan was carried out: an object whose record is forgotten first would be quarantined.
    pub fn forget_before(&self) -> Timestamp {
        let retention = u64::try_from(self.retention.as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(self.observed.as_millis().saturating_sub(retention))
    }
}

/// What to do about one sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Destroy its objects, then record that it could not be started.
    Fail { id: SandboxId, reason: Reason },
    /// Record that it vanished, then destroy its objects.
    Lose { id: SandboxId, reason: Reason },
    /// Record that saving it failed; the sandbox lives and can be used again.
    Revive { id: SandboxId },
    /// Destroy it, then record that it is gone.
    Finish { id: SandboxId },
    /// Destroy its objects; the record stays as it is.
    Sweep { id: SandboxId },
    /// Make a record in state `quarantined`; its objects stay.
    Quarantine { id: SandboxId },
    /// Record that it reached its idle limit, then destroy its objects.
    Expire { id: SandboxId, ended: Timestamp },
    /// End its processes and record that it is hibernated; its files stay.
    Rest { id: SandboxId },
    /// Record that it ends soon if no caller uses it, and when.
    Announce { id: SandboxId, ends: Timestamp },
    /// Record that it is being removed, destroy it, record that it is gone.
    Discard { id: SandboxId },
}

impl Action {
    /// Returns the sandbox the action is about.
    pub fn sandbox(&self) -> &SandboxId {
        match self {
            Self::Fail { id, .. }
            | Self::Lose { id, .. }
            | Self::Revive { id }
            | Self::Finish { id }
            | Self::Sweep { id }
            | Self::Quarantine { id }
            | Self::Expire { id, .. }
            | Self::Rest { id }
            | Self::Announce { id, .. }
            | Self::Discard { id } => id,
        }
    }

    /// Tells whether it is about something left behind, and not only about what its owner is to know.
    pub fn is_repair(&self) -> bool {
        !matches!(self, Self::Announce { .. })
    }
}

/// Why a sandbox is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("the process that was making it stopped before it was done")]
    Abandoned,
    #[error("the machine was restarted")]
    Restarted,
    #[error("its guest ended unexpectedly")]
    GuestGone,
    #[error("it fell asleep, and the machine was restarted before all its files were on the disk")]
    Unsynced,
    #[error("the files it was to wake with are gone")]
    FilesGone,
}

/// Decides how to bring records and reality together; at most one action for each sandbox.
///
/// Call it for one backend at a time, with all live records of that backend and the ended ones of every object found,
/// and only if its survey succeeded: a backend that does not answer proves nothing. Read the records, then survey,
/// then read the records again: a record is written before its object is made, so the second reading has a record for
/// every object found. Pass the second reading, and add to `busy` what differs between the two: such a sandbox may
/// have started after the survey.
pub fn plan(records: &[Record], found: &[Found], facts: &Facts<'_>) -> Vec<Action> {
    let mut seen = BTreeMap::new();
    for object in found {
        let presence = Presence::of(object);
        seen.entry(&object.sandbox)
            .and_modify(|known: &mut Presence| *known = known.or(presence))
            .or_insert(presence);
    }
    let known: BTreeSet<_> = records.iter().map(|record| &record.id).collect();

    let of_records = records.iter().filter_map(|record| {
        for_record(record, seen.get(&record.id).copied().unwrap_or(Presence::Nothing), facts)
    });
    let of_objects =
        seen.keys().filter(|id| !known.contains(**id)).map(|id| Action::Quarantine { id: (*id).clone() });
    of_records.chain(of_objects).filter(|action| !facts.busy.contains(action.sandbox())).collect()
}

/// What the survey saw of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Nothing,
    Leftovers {
        end: Option<GuestEnd>,
        files: bool,
    },
    Guest,
    /// There is something, and nothing more can be told from here.
    Elsewhere,
}

impl Presence {
    fn of(object: &Found) -> Self {
        match (object.elsewhere, object.alive) {
            (true, _) => Self::Elsewhere,
            (false, true) => Self::Guest,
            (false, false) => Self::Leftovers { end: object.end, files: object.files },
        }
    }

    /// Combines what two objects of one sandbox show.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Elsewhere, _) | (_, Self::Elsewhere) => Self::Elsewhere,
            (Self::Guest, _) | (_, Self::Guest) => Self::Guest,
            (Self::Leftovers { end, files }, Self::Leftovers { end: more, files: others }) => {
                Self::Leftovers { end: end.or(more), files: files || others }
            }
            (Self::Nothing, seen) | (seen, Self::Nothing) => seen,
        }
    }

    fn end(self) -> Option<GuestEnd> {
        match self {
            Self::Leftovers { end, .. } => end,
            Self::Nothing | Self::Guest | Self::Elsewhere => None,
        }
    }

    /// Tells whether a sandbox without its guest can wake with what is there.
    fn has_files(self) -> bool {
        matches!(self, Self::Leftovers { files: true, .. })
    }
}

fn for_record(record: &Record, presence: Presence, facts: &Facts<'_>) -> Option<Action> {
    let id = record.id.clone();
    let restarted = facts.boot.is_some_and(|boot| record.boot != boot);
    match record.state {
        State::Creating => Some(Action::Fail { id, reason: Reason::Abandoned }),
        // Neither its end nor its life is proved.
        State::Resuming | State::Hibernated | State::Ready | State::Paused | State::Hibernating
            if presence == Presence::Elsewhere =>
        {
            None
        }
        // The process that woke it is dead. Its files are where they were; a guest it started is ended.
        State::Resuming if presence == Presence::Guest || presence.has_files() => Some(Action::Rest { id }),
        State::Hibernated if presence == Presence::Guest => Some(Action::Rest { id }),
        State::Hibernated if presence.has_files() => for_sleeper(record, facts),
        State::Resuming | State::Hibernated => Some(Action::Lose { id, reason: Reason::FilesGone }),
        State::Ready | State::Paused | State::Hibernating if sleeps(record, presence, restarted) => {
            Some(Action::Rest { id })
        }
        State::Ready | State::Paused | State::Hibernating if restarted || presence != Presence::Guest => {
            Some(match presence.end() {
                // It may have ended by itself before the restart.
                Some(GuestEnd::Idle { .. }) if restarted && record.spec.on_idle() == OnIdle::Hibernate => {
                    Action::Lose { id, reason: Reason::Unsynced }
                }
                Some(GuestEnd::Idle { ended } | GuestEnd::Asleep { ended }) => Action::Expire { id, ended },
                Some(GuestEnd::Untied) => Action::Finish { id },
                // After a restart, a process that looks like the guest is a different one.
                None if restarted => Action::Lose { id, reason: Reason::Restarted },
                None => Action::Lose { id, reason: Reason::GuestGone },
            })
        }
        State::Ready | State::Paused => None,
        State::Hibernating => Some(Action::Revive { id }),
        // The process that keeps a spare holds its work lock all the time, so the spare is left alone; one without a
        // holder is a leftover.
        State::Spare | State::Destroying | State::DestroyFailed => Some(Action::Finish { id }),
        State::Quarantined => {
            (facts.observed.since(record.observed_at) > facts.quarantine).then_some(Action::Discard { id })
        }
        State::Lost if facts.observed.since(record.observed_at) > LOST_KEPT => Some(Action::Discard { id }),
        State::Destroyed | State::Failed | State::Expired | State::Lost => {
            (presence != Presence::Nothing).then_some(Action::Sweep { id })
        }
    }
}

/// Tells whether the end of its guest puts a sandbox to sleep.
fn sleeps(record: &Record, presence: Presence, restarted: bool) -> bool {
    let sleeps = match presence.end() {
        Some(GuestEnd::Asleep { .. }) => true,
        // After a restart its files may not all be on the disk.
        Some(GuestEnd::Idle { .. }) | None => !restarted,
        Some(GuestEnd::Untied) => false,
    };
    sleeps && record.spec.on_idle() == OnIdle::Hibernate && presence.has_files()
}

/// Gives up a sandbox that has slept for as long as sleepers are kept, and has that told a day before.
fn for_sleeper(record: &Record, facts: &Facts<'_>) -> Option<Action> {
    let (kept, keep) = (record.kept.as_ref()?, facts.keep?);
    if is_held(record) {
        return None;
    }
    let (id, slept) = (record.id.clone(), facts.observed.since(kept.since.observed));
    if slept > keep {
        return Some(Action::Expire { id, ended: kept.since.wall });
    }
    let soon = keep - slept <= ANNOUNCED && kept.ends_soon.is_none();
    soon.then(|| Action::Announce { id, ends: kept.expires_at(keep) })
}

/// Tells whether an unfinished run holds a sleeper, which then neither ends nor is about to. The only place that decides it.
///
/// Nothing tells coracle yet whether a run has finished, so none holds a sandbox.
fn is_held(_record: &Record) -> bool {
    false
}
