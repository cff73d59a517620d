//! The context of one call: who asks, who watches, when it has to end, and what ends it early.
//!
//! Every door makes one for each request and hands it to the engine; nothing else about a request reaches an operation.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use coracle_core::answer::RequestKey;
use coracle_core::image::{Progress, Step};
use coracle_core::selection::Refusal;
use coracle_core::{Cancel, ExecId, Result, SandboxId};
use coracle_wire::Chunk;
use tracing::Span;

use crate::Caller;

/// One request for one operation.
#[derive(Clone)]
pub struct Call {
    pub caller: Caller,
    /// Ends it early. Doors keep a clone.
    pub cancel: Cancel,
    /// When it has to have ended: it is cancelled then.
    pub deadline: Option<Instant>,
    pub observer: Arc<dyn Observer>,
    /// The name under which the client may send the same request again.
    pub key: Option<RequestKey>,
    /// The span it is a part of.
    pub parent: Span,
}

/// Sees what happens while a call is carried out. Each method does nothing unless a door wants to know.
///
/// The methods are called on the thread that carries out the call, so they make it wait.
pub trait Observer: Send + Sync {
    /// Long work on images has come this far. May be called from several threads.
    fn step(&self, _step: &Step) {}

    /// A sandbox of its own exists for a command, and nothing runs in it yet. An error ends the call and the sandbox.
    fn placed(&self, _sandbox: &Placed<'_>) -> Result<()> {
        Ok(())
    }

    /// The command runs, or ran before under the same id. An error ends the call.
    fn started(&self, _exec: &Running<'_>) -> Result<()> {
        Ok(())
    }

    /// A piece of its output, in order. An error ends the call.
    fn output(&self, _chunk: &Chunk) -> Result<()> {
        Ok(())
    }

    /// Something the caller should know though the call goes on.
    fn notice(&self, _notice: &Notice) {}
}

/// A sandbox that was made for one command.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    pub sandbox: &'a SandboxId,
    pub backend: &'a str,
    /// Backends that came before that one and were not used, with the reason.
    pub refused: &'a [Refusal],
    /// Walls that do not stand around it.
    pub missing: &'a [String],
}

/// A command that was started.
#[derive(Debug, Clone, Copy)]
pub struct Running<'a> {
    pub sandbox: &'a SandboxId,
    pub exec: &'a ExecId,
    /// It had been started before under this id.
    pub existing: bool,
}

/// Something the caller should know though the call goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The sandbox was made by an older coracle: what is started does not end with this process.
    OldGuest,
    /// Too much is tied to the sandbox already: what is started does not end with this process.
    Untied { reason: String },
    /// The sandbox sleeps, and is being woken for this call.
    Waking { sandbox: SandboxId },
    /// A sandbox could not be removed. The janitor tries again.
    NotRemoved { reason: String },
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Observer for Nobody {}

impl Call {
    /// Returns a call without an observer that nothing ends early.
    pub fn by(caller: Caller) -> Self {
        Self {
            caller,
            cancel: Cancel::default(),
            deadline: None,
            observer: Arc::new(Nobody),
            key: None,
            parent: Span::current(),
        }
    }

    pub fn watched_by(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer, ..self }
    }

    pub fn cancelled_by(self, cancel: Cancel) -> Self {
        Self { cancel, ..self }
    }

    pub fn until(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    pub fn under_key(self, key: Option<RequestKey>) -> Self {
        Self { key, ..self }
    }

    /// Returns the same call on behalf of another caller.
    pub fn on_behalf_of(&self, caller: Caller) -> Self {
        Self { caller, ..self.clone() }
    }

    /// Cancels the call at its deadline, for as long as what this returns is held. Fails if it is over already.
    pub(crate) fn watch_deadline(&self) -> Result<Option<DeadlineWatch>> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        if deadline <= Instant::now() {
            self.cancel.expire();
            return Err(self.cancel.reason());
        }
        let cancel = self.cancel.clone();
        let over = Cancel::default();
        let ended = over.clone();
        let watch = move || {
            if !ended.sleep(deadline.saturating_duration_since(Instant::now())) {
                cancel.expire();
            }
        };
        // Without a thread the call has no deadline, which is better than no call.
        let watched = std::thread::Builder::new().name("deadline".to_owned()).spawn(watch);
        Ok(watched.ok().map(|_| DeadlineWatch(over)))
    }
}

/// Ends the watch over a deadline when it is dropped.
#[derive(Debug)]
pub(crate) struct DeadlineWatch(Cancel);

impl Drop for DeadlineWatch {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Long work on images reports to the observer of the call, and ends when the call does.
impl Progress for Call {
    fn report(&self, step: &Step) {
        self.observer.step(step);
    }

    fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }
}

impl From<Caller> for Call {
    fn from(caller: Caller) -> Self {
        Self::by(caller)
    }
}

impl From<&Caller> for Call {
    fn from(caller: &Caller) -> Self {
        Self::by(caller.clone())
    }
}

impl From<&Self> for Call {
    fn from(call: &Self) -> Self {
        call.clone()
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("caller", &self.caller)
            .field("cancel", &self.cancel)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
