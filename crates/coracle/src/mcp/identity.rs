//! Who calls, and what that means for what they write.

use coracle_core::{Result, SessionKey};
use coracle_engine::Caller;
use rmcp::model::Extensions;
use serde_json::{Value, json};

/// Where a server finds out who calls.
#[derive(Debug, Clone)]
pub enum Identity {
    /// The process has one client, which started it.
    Client { caller: Caller, session: SessionKey },
}

impl Identity {
    /// Makes that of a client that started this process: without a key of its own it comes back to one sandbox.
    pub fn of_client(caller: Caller) -> Result<Self> {
        let session = format!("agent:{}:default", caller.claim.run).parse()?;
        Ok(Self::Client { caller, session })
    }

    pub fn caller(&self, _request: &Extensions) -> Result<Caller> {
        match self {
            Self::Client { caller, .. } => Ok(caller.clone()),
        }
    }

    /// Adds to an input what goes without saying for this client.
    pub fn complete(&self, operation: &str, input: &mut Value) {
        match self {
            Self::Client { session, .. } if operation == "sandbox_open" => {
                if input["session_key"].is_null() {
                    input["session_key"] = json!(session);
                }
            }
            Self::Client { .. } => {}
        }
    }
}
