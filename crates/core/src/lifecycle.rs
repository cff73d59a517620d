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
    /// Made ahead, for whoever next wants one like it. Nobody's, and shown to nobody.
    Spare,
    Ready,
    Paused,
    Hibernating,
    Hibernated,
    Resuming,
    Destroying,
    Destroyed,
    /// It could not be made; nothing of it is left.
    Failed,
    /// It was idle for as long as it may be, and has ended.
    Expired,
    /// It was there and is not any more, without having been destroyed by us.
    Lost,
    /// It is ours but nothing is known of it; kept aside for a person to look at.
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
    /// Teardown is monotone: from `destroying` nothing leads back to a sandbox that could be used.
    pub fn step(self, event: Event) -> Result<Self, Refused> {
        match (self, event) {
            (Self::Creating | Self::Resuming, Event::Started) => Ok(Self::Ready),
            (Self::Creating, Event::MadeAhead) => Ok(Self::Spare),
            (Self::Spare, Event::Taken) => Ok(Self::Ready),
            (Self::Creating, Event::NotStarted) => Ok(Self::Failed),
            // What it would have resumed from is still in git, so a failed attempt costs nothing.
            (Self::Resuming, Event::NotStarted) => Ok(Self::Hibernated),
            (Self::Ready, Event::Pause) => Ok(Self::Paused),
            (Self::Paused, Event::Unpause) => Ok(Self::Ready),
            (Self::Ready | Self::Paused, Event::Hibernate) => Ok(Self::Hibernating),
            (Self::Hibernating, Event::Saved) => Ok(Self::Hibernated),
            (Self::Hibernating, Event::NotSaved) => Ok(Self::Ready),
            (Self::Hibernated, Event::Resume) => Ok(Self::Resuming),
            (Self::Ready | Self::Paused | Self::Hibernating, Event::Vanished) => Ok(Self::Lost),
            (Self::Ready | Self::Paused | Self::Hibernating, Event::Idled) => Ok(Self::Expired),
            (Self::Destroyed | Self::Failed | Self::Expired, Event::Destroy) => {
                Err(Refused { state: self, event })
            }
            (_, Event::Destroy) => Ok(Self::Destroying),
            (Self::Destroying, Event::Removed) => Ok(Self::Destroyed),
            (Self::Destroying, Event::NotRemoved) => Ok(Self::DestroyFailed),
            _ => Err(Refused { state: self, event }),
        }
    }

    /// Tells whether its row still stands for something: its session key is taken and listings show it.
    pub fn is_live(self) -> bool {
        !self.is_ended()
    }

    /// Tells whether nothing will ever happen to it again.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Destroyed | Self::Failed | Self::Expired)
    }

    /// Tells whether commands and file operations are admitted.
    pub fn accepts_work(self) -> bool {
        self == Self::Ready
    }

    /// Tells whether its guest is there to be asked what changes nothing.
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

    /// Refuses an operation, by its verb, that this state does not admit.
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
            Self::Paused | Self::Hibernated => {
                (Kind::Conflict, format!("run `coracle resume {sandbox}` first"))
            }
            Self::Lost => (Kind::Conflict, format!("run `coracle close {sandbox}`, then open a new one")),
            Self::Quarantined => (
                Kind::Conflict,
                format!("run `coracle close {sandbox}` once you are sure that nobody needs it"),
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

/// What happens to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// Its guest answers.
    Started,
    /// Its guest answers, and nobody has asked for it yet.
    MadeAhead,
    /// Somebody wants one like this spare.
    Taken,
    /// Making it failed and nothing of it is left.
    NotStarted,
    Pause,
    Unpause,
    Hibernate,
    /// What is in it is safe; the sandbox itself may go.
    Saved,
    /// Saving it failed, and it is still there.
    NotSaved,
    Resume,
    /// It is gone and nobody destroyed it.
    Vanished,
    /// It has ended because it was idle for as long as it may be.
    Idled,
    /// Someone wants it gone. Also the retry of a removal that stopped half way.
    Destroy,
    Removed,
    NotRemoved,
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 15] = [
        Self::Started,
        Self::MadeAhead,
        Self::Taken,
        Self::NotStarted,
        Self::Pause,
        Self::Unpause,
        Self::Hibernate,
        Self::Saved,
        Self::NotSaved,
        Self::Resume,
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
            Self::Unpause | Self::Resume => "resume",
            Self::Hibernate | Self::Saved | Self::NotSaved => "hibernate",
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
    /// Returns the error every door shows; what has ended is `not_found`.
    pub fn into_error(self, sandbox: &SandboxId) -> Error {
        self.state.refuse(sandbox, self.event.verb())
    }
}
