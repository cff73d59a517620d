//! Who calls, and what that means for what they may and for what they write.

use coracle_core::{Error, Result, SessionKey};
use coracle_engine::Caller;
use serde_json::{Value, json};

use crate::http;

/// Who a server serves.
#[derive(Debug, Clone)]
pub enum Identity {
    /// The client that started this process.
    Client { caller: Caller, session: SessionKey },
    /// Whoever sent the request, as the daemon's door found out.
    Request(http::Identity),
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
            Self::Request(identity) => &identity.caller,
        }
    }

    /// Refuses an operation that was not granted.
    pub fn may(&self, operation: &str) -> Result<(), Error> {
        match self {
            Self::Client { .. } => Ok(()),
            Self::Request(identity) => identity.may(operation).map_err(|refusal| refusal.error),
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
}
