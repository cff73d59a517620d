//! Who calls, and what that means: what they may, what goes without saying for them, what is noted and what they are told.

use std::time::Duration;

use coracle_core::{Result, SandboxId, SessionKey};
use coracle_engine::Caller;
use serde_json::{Value, json};

use crate::audit::Entry;
use crate::http;

/// Who a server serves.
#[derive(Debug, Clone)]
pub enum Identity {
    /// The client that started this process.
    Client { caller: Caller, session: SessionKey },
    /// Whoever sent a request to the daemon.
    Request(Asker),
}

/// Who sent a request, as the daemon's door found out.
#[derive(Debug, Clone)]
pub struct Asker {
    pub identity: http::Identity,
    pub door: http::Door,
}

impl Identity {
    /// Makes that of a client that started this process: without a key of its own it comes back to one sandbox.
    pub fn of_client(caller: Caller) -> Result<Self> {
        let session = format!("agent:{}:default", caller.claim.run).parse()?;
        Ok(Self::Client { caller, session })
    }

    pub fn caller(&self) -> &Caller {
        match self {
            Self::Client { caller, .. } => caller,
            Self::Request(asker) => &asker.identity.caller,
        }
    }

    /// Refuses an operation that was not granted.
    pub fn may(&self, operation: &str) -> Result<()> {
        match self {
            Self::Client { .. } => Ok(()),
            Self::Request(asker) => asker.identity.may(operation).map_err(|refusal| *refusal.error),
        }
    }

    /// Adds to an input what goes without saying for this client.
    pub fn complete(&self, operation: &str, input: &mut Value) {
        match self {
            Self::Client { session, .. } => {
                if operation == "sandbox_open" && input["session_key"].is_null() {
                    input["session_key"] = json!(session);
                }
            }
            // Many agents may share what they show at the door; only they can tell themselves apart.
            Self::Request(_) => {}
        }
    }

    /// Notes what came of an operation, and returns what they are told of it. Whoever started this process sees all,
    /// and nobody else knocks at that door.
    pub fn conclude<T>(&self, about: About<'_>, outcome: Result<T>) -> Result<T> {
        match self {
            Self::Client { .. } => outcome,
            Self::Request(asker) => asker.conclude(about, outcome),
        }
    }
}

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    pub operation: &'a str,
    pub sandbox: Option<&'a SandboxId>,
    pub took: Duration,
}

impl Asker {
    fn conclude<T>(&self, about: About<'_>, outcome: Result<T>) -> Result<T> {
        let tenant = self.identity.caller.tenant.as_ref();
        self.door.audit().note(
            self.door.clock(),
            &Entry {
                door: "mcp",
                who: Some(&self.identity.who),
                tenant,
                from: self.identity.from,
                operation: Some(about.operation),
                sandbox: about.sandbox,
                failure: outcome.as_ref().err().map(|error| error.kind),
                status: None,
                took: about.took,
                request: &self.identity.request,
            },
        );
        outcome.map_err(|error| self.identity.told(error))
    }
}
