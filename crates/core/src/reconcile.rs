//! What to do when records and reality disagree: a join of both, in both directions. Only decides; whoever carries a
//! plan out takes the work lock of each sandbox first and looks at its record once more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::backend::{Found, GuestEnd};
use crate::clock::Timestamp;
use crate::ids::SandboxId;
use crate::lifecycle::State;
use crate::record::Record;

/// How long an object without a record is kept for a person to look at.
pub const QUARANTINE: Duration = Duration::from_secs(24 * 3600);

/// How long a lost sandbox can be asked about before its record, and its session key, are let go. Lists show one that has
/// expired for as long.
pub const LOST_KEPT: Duration = Duration::from_secs(3600);

/// What a plan depends on besides records and objects.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The time observed until now: no clock that somebody sets makes anything old.
    pub observed: Timestamp,
    /// The boot the machine is in; absent where sandboxes do not end with it.
    pub boot: Option<&'a str>,
    /// Sandboxes someone is working on, and those whose record changed during the survey. Strictly left alone.
    pub busy: &'a BTreeSet<SandboxId>,
    /// How long quarantined sandboxes are kept; [`QUARANTINE`] unless configured.
    pub quarantine: Duration,
    /// How long records of ended sandboxes are kept.
    pub retention: Duration,
}

impl Facts<'_> {
    /// Returns the observed time before which ended records are forgotten.
    ///
    /// Forget only after the plan was carried out: an object that outlived its record would be quarantined.
    pub fn forget_before(&self) -> Timestamp {
        let retention = u64::try_from(self.retention.as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(self.observed.as_millis().saturating_sub(retention))
    }
}

/// What shall be done about one sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Destroy what is there, then record that it could not be started.
    Fail { id: SandboxId, reason: Reason },
    /// Record that it vanished, then destroy what is there.
    Lose { id: SandboxId, reason: Reason },
    /// Record that saving it failed; the sandbox lives and can be used again.
    Revive { id: SandboxId },
    /// Destroy it, then record that it is gone.
    Finish { id: SandboxId },
    /// Destroy what is there; the record stays as it is.
    Sweep { id: SandboxId },
    /// Make a record in state `quarantined`; what is there stays.
    Quarantine { id: SandboxId },
    /// Record that it was idle for as long as it may be, then destroy what is there.
    Expire { id: SandboxId, ended: Timestamp },
    /// Record that it shall go, destroy it, record that it is gone.
    Discard { id: SandboxId },
}

impl Action {
    /// Returns the sandbox it is about.
    pub fn sandbox(&self) -> &SandboxId {
        match self {
            Self::Fail { id, .. }
            | Self::Lose { id, .. }
            | Self::Revive { id }
            | Self::Finish { id }
            | Self::Sweep { id }
            | Self::Quarantine { id }
            | Self::Expire { id, .. }
            | Self::Discard { id } => id,
        }
    }
}

/// Why a sandbox is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("whoever was making it stopped before it was done")]
    Abandoned,
    #[error("the machine was restarted")]
    Restarted,
    #[error("its guest is gone, and nobody has ended it")]
    GuestGone,
}

/// Decides what brings records and reality together; at most one action for each sandbox.
///
/// Call it for one backend at a time, with all live records of that backend and the ended ones of whatever was found,
/// and only if its survey succeeded: silence of a backend is not absence. Read the records, then survey, then read the records again: a
/// record comes before its object, so the second reading knows every object that was found. Pass that one, and add
/// to `busy` what differs between the two: such a sandbox may have started after the survey.
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
    Leftovers { end: Option<GuestEnd> },
    Guest,
}

impl Presence {
    fn of(object: &Found) -> Self {
        match object.alive {
            true => Self::Guest,
            false => Self::Leftovers { end: object.end },
        }
    }

    /// Returns what two objects of one sandbox say together.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Guest, _) | (_, Self::Guest) => Self::Guest,
            (Self::Leftovers { end }, Self::Leftovers { end: more }) => Self::Leftovers { end: end.or(more) },
            (Self::Nothing, seen) | (seen, Self::Nothing) => seen,
        }
    }

    fn end(self) -> Option<GuestEnd> {
        match self {
            Self::Leftovers { end } => end,
            Self::Nothing | Self::Guest => None,
        }
    }
}

fn for_record(record: &Record, presence: Presence, facts: &Facts<'_>) -> Option<Action> {
    let id = record.id.clone();
    let restarted = facts.boot.is_some_and(|boot| record.boot != boot);
    match record.state {
        State::Creating | State::Resuming => Some(Action::Fail { id, reason: Reason::Abandoned }),
        State::Ready | State::Paused | State::Hibernating if restarted || presence != Presence::Guest => {
            Some(match presence.end() {
                // It may have ended by itself before the restart.
                Some(GuestEnd::Idle { ended }) => Action::Expire { id, ended },
                Some(GuestEnd::Untied) => Action::Finish { id },
                // After a restart a process that looks like the guest is another one.
                None if restarted => Action::Lose { id, reason: Reason::Restarted },
                None => Action::Lose { id, reason: Reason::GuestGone },
            })
        }
        State::Ready | State::Paused => None,
        State::Hibernating => Some(Action::Revive { id }),
        // Whoever tends a spare works on it all the time, and is left alone; a spare nobody works on is a leftover.
        State::Spare | State::Destroying | State::DestroyFailed => Some(Action::Finish { id }),
        State::Quarantined => {
            (facts.observed.since(record.observed_at) > facts.quarantine).then_some(Action::Discard { id })
        }
        State::Lost if facts.observed.since(record.observed_at) > LOST_KEPT => Some(Action::Discard { id }),
        State::Hibernated | State::Destroyed | State::Failed | State::Expired | State::Lost => {
            (presence != Presence::Nothing).then_some(Action::Sweep { id })
        }
    }
}
