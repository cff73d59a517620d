//! The states of a sandbox and which may follow which.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind};
use crate::ids::SandboxId;

/// Where a sandbox is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Creating,
    /// Made ahead, for the next caller that wants one like it. It has no owner, and listings do not show it.
    Spare,
    Ready,
    Paused,
    Hibernating,
    Hibernated,
    /// It is being woken.
    Resuming,
    Destroying,
    Destroyed,
    /// It could not be made; nothing of it is left.
    Failed,
    /// It reached its idle limit and ended.
    Expired,
    /// It existed and is gone, although coracle did not destroy it.
    Lost,
    /// It carries this home's mark but has no record; kept aside for a person to look at.
    Quarantined,
    /// Removing it failed; the next `gc` tries again.
    DestroyFailed,
}

impl State {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 14] = [
        Self::Creating,
        Self::Spare,
        Self::Ready,
        Self::Paused,
        Self::Hibernating,
        Self::Hibernated,
        Self::Resuming,
        Self::Destroying,
        Self::Destroyed,
        Self::Failed,
        Self::Expired,
        Self::Lost,
        Self::Quarantined,
        Self::DestroyFailed,
    ];

    /// Returns the state after the event, or refuses it.
    ///
    /// Teardown is monotone: no event leads from `destroying` back to a usable sandbox.
    pub fn step(self, event: Event) -> Result<Self, Refused> {
        match (self, event) {
            (Self::Creating | Self::Resuming, Event::Started) => Ok(Self::Ready),
            (Self::Creating, Event::MadeAhead) => Ok(Self::Spare),
            (Self::Spare, Event::Taken) => Ok(Self::Ready),
            (Self::Creating, Event::NotStarted) => Ok(Self::Failed),
            // Its files are where they were, so a failed attempt costs nothing.
            (Self::Resuming, Event::NotStarted) => Ok(Self::Hibernated),
            (Self::Ready, Event::Pause) => Ok(Self::Paused),
            (Self::Paused, Event::Unpause) => Ok(Self::Ready),
            (Self::Ready | Self::Paused, Event::Hibernate) => Ok(Self::Hibernating),
            (Self::Hibernating, Event::Saved) => Ok(Self::Hibernated),
            (Self::Ready | Self::Paused | Self::Hibernating, Event::Slept) => Ok(Self::Hibernated),
            (Self::Hibernating, Event::NotSaved) => Ok(Self::Ready),
            (Self::Hibernated, Event::Wake) => Ok(Self::Resuming),
            (
                Self::Ready | Self::Paused | Self::Hibernating | Self::Hibernated | Self::Resuming,
                Event::Vanished,
            ) => Ok(Self::Lost),
            (Self::Ready | Self::Paused | Self::Hibernating | Self::Hibernated, Event::Idled) => {
                Ok(Self::Expired)
            }
            (Self::Destroyed | Self::Failed | Self::Expired, Event::Destroy) => {
                Err(Refused { state: self, event })
            }
            (_, Event::Destroy) => Ok(Self::Destroying),
            (Self::Destroying, Event::Removed) => Ok(Self::Destroyed),
            (Self::Destroying, Event::NotRemoved) => Ok(Self::DestroyFailed),
            _ => Err(Refused { state: self, event }),
        }
    }

    /// Tells whether the sandbox counts as existing: its session key is taken and listings show it.
    pub fn is_live(self) -> bool {
        !self.is_ended()
    }

    /// Tells whether its state can never change again.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Destroyed | Self::Failed | Self::Expired)
    }

    /// Tells whether commands and file operations are admitted.
    pub fn accepts_work(self) -> bool {
        self == Self::Ready
    }

    /// Tells whether its guest can answer read-only requests.
    pub fn accepts_looks(self) -> bool {
        matches!(self, Self::Ready | Self::Paused)
    }

    /// Returns the name users see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Spare => "spare",
            Self::Ready => "ready",
            Self::Paused => "paused",
            Self::Hibernating => "hibernating",
            Self::Hibernated => "hibernated",
            Self::Resuming => "resuming",
            Self::Destroying => "destroying",
            Self::Destroyed => "destroyed",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Lost => "lost",
            Self::Quarantined => "quarantined",
            Self::DestroyFailed => "destroy_failed",
        }
    }

    /// Returns the error for an operation, by its verb, that this state does not admit.
    pub fn refuse(self, sandbox: &SandboxId, verb: &str) -> Error {
        let (kind, hint) = self.advice(sandbox);
        Error::new(kind, format!("could not {verb} sandbox `{sandbox}`: it is {self}"))
            .hint(hint)
            .detail("sandbox_id", sandbox.as_str())
            .detail("state", self.as_str())
    }

    fn advice(self, sandbox: &SandboxId) -> (Kind, String) {
        match self {
            Self::Destroyed | Self::Failed | Self::Expired | Self::Spare => (
                Kind::NotFound,
                "open a new one with `coracle open`, or see `coracle ps` for those there are".into(),
            ),
            Self::Creating | Self::Hibernating | Self::Resuming => {
                (Kind::Conflict, format!("try again when `coracle show {sandbox}` says it is done"))
            }
            Self::Ready => (Kind::Conflict, format!("see `coracle show {sandbox}`")),
            Self::Paused => (Kind::Conflict, format!("run `coracle resume {sandbox}` first")),
            Self::Hibernated => (Kind::Conflict, "the next command or file operation wakes it".into()),
            Self::Lost => (Kind::Conflict, format!("run `coracle close {sandbox}`, then open a new one")),
            Self::Quarantined => (
                Kind::Conflict,
                format!("run `coracle close {sandbox}` once you are sure that it is not needed"),
            ),
            Self::Destroying | Self::DestroyFailed => (
                Kind::Conflict,
                "open a new one with `coracle open`; `coracle gc` finishes removing this one".into(),
            ),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What can happen to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// Its guest answers.
    Started,
    /// Its guest answers, and no caller has asked for it yet.
    MadeAhead,
    /// A caller wants a sandbox like this spare.
    Taken,
    /// It could not be made, and nothing of it is left.
    NotStarted,
    Pause,
    Unpause,
    Hibernate,
    /// Its files are saved; the sandbox itself may go.
    Saved,
    /// Saving its files failed, and it still exists.
    NotSaved,
    /// Its guest has ended, and its files stay where they are.
    Slept,
    /// A caller uses it while it sleeps: a new guest is started with its files.
    Wake,
    /// It is gone although no caller closed it.
    Vanished,
    /// It reached its idle limit and ended.
    Idled,
    /// A caller wants it removed. Also the retry of a removal that stopped half way.
    Destroy,
    Removed,
    NotRemoved,
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 16] = [
        Self::Started,
        Self::MadeAhead,
        Self::Taken,
        Self::NotStarted,
        Self::Pause,
        Self::Unpause,
        Self::Hibernate,
        Self::Saved,
        Self::NotSaved,
        Self::Slept,
        Self::Wake,
        Self::Vanished,
        Self::Idled,
        Self::Destroy,
        Self::Removed,
        Self::NotRemoved,
    ];

    fn verb(self) -> &'static str {
        match self {
            Self::Started | Self::NotStarted | Self::MadeAhead => "start",
            Self::Taken => "take",
            Self::Pause => "pause",
            Self::Unpause => "resume",
            Self::Wake => "wake",
            Self::Hibernate | Self::Saved | Self::NotSaved | Self::Slept => "hibernate",
            Self::Vanished => "give up",
            Self::Idled => "expire",
            Self::Destroy | Self::Removed | Self::NotRemoved => "destroy",
        }
    }
}

/// An event that cannot happen in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("could not {} a sandbox that is {state}", .event.verb())]
pub struct Refused {
    pub state: State,
    pub event: Event,
}

impl Refused {
    /// Returns the error every door shows: `not_found` for a sandbox that has ended.
    pub fn into_error(self, sandbox: &SandboxId) -> Error {
        self.state.refuse(sandbox, self.event.verb())
    }
}
