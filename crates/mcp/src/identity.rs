//! The caller of a server: its rights, its defaults, its lines in the audit log, and the errors it may see.

use std::time::Instant;

use coracle_core::{Result, SandboxId, SessionKey};
use coracle_engine::Caller;
use serde_json::{Value, json};

use coracle_service as service;
use coracle_service::audit::{End, Entry};

/// The caller of a server.
#[derive(Debug, Clone)]
pub enum Identity {
    /// The client that started this process.
    Client { caller: Caller, session: SessionKey },
    /// The sender of a request to the daemon.
    Request(Asker),
}

/// The sender of a request, as the daemon authenticated it.
#[derive(Debug, Clone)]
pub struct Asker {
    pub identity: service::Identity,
    pub service: service::Service,
}

impl Identity {
    /// Makes the identity of a client that started this process: without a key of its own, it always gets the same
    /// sandbox.
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

    /// Returns the daemon that serves the caller.
    pub fn daemon(&self) -> Option<&service::Service> {
        match self {
            Self::Client { .. } => None,
            Self::Request(asker) => Some(&asker.service),
        }
    }

    /// Refuses an operation that the token's scope does not cover.
    pub fn may(&self, operation: &str) -> Result<()> {
        match self {
            Self::Client { .. } => Ok(()),
            Self::Request(asker) => asker.identity.may(operation).map_err(|refusal| *refusal.error),
        }
    }

    /// Adds this client's defaults to an input.
    pub fn complete(&self, operation: &str, input: &mut Value) {
        match self {
            Self::Client { session, .. } => {
                if operation == "sandbox_open" && input["session_key"].is_null() {
                    input["session_key"] = json!(session);
                }
            }
            // Many agents may share one token; only they can choose different keys.
            Self::Request(_) => {}
        }
    }

    /// Begins the line of an operation in the audit log. The client that started this process gets none: it is the
    /// only caller of that door.
    pub fn note(&self, operation: &'static str, sandbox: Option<SandboxId>) -> Noting {
        let asker = match self {
            Self::Client { .. } => None,
            Self::Request(asker) => Some(asker.clone()),
        };
        Noting { asker, operation, sandbox, began: Instant::now() }
    }
}

/// The line of an operation in the audit log. If it is dropped before the outcome is known, the client has
/// disconnected.
#[derive(Debug)]
pub struct Noting {
    asker: Option<Asker>,
    operation: &'static str,
    sandbox: Option<SandboxId>,
    began: Instant,
}

impl Noting {
    /// Logs the outcome, and returns it as the caller may see it.
    pub fn conclude<T>(mut self, sandbox: Option<SandboxId>, outcome: Result<T>) -> Result<T> {
        self.sandbox = sandbox.or(self.sandbox.take());
        let Some(asker) = self.asker.take() else { return outcome };
        self.write(&asker, End::of(&outcome));
        outcome.map_err(|error| asker.identity.told(error))
    }

    fn write(&self, asker: &Asker, end: End) {
        asker.service.audit().note(
            asker.service.clock(),
            &Entry {
                door: "mcp",
                who: Some(&asker.identity.who),
                tenant: asker.identity.caller.tenant.as_ref(),
                from: asker.identity.from,
                operation: Some(self.operation),
                sandbox: self.sandbox.as_ref(),
                end,
                status: None,
                took: self.began.elapsed(),
                request: &asker.identity.request,
            },
        );
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        if let Some(asker) = self.asker.take() {
            self.write(&asker, End::Abandoned);
        }
    }
}
