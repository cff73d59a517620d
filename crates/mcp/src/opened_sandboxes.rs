//! The sandboxes made for a client, for a server that closes them when the client disconnects.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use coracle_core::SandboxId;
use coracle_engine::catalogue::Facts;
use serde_json::Value;

/// Sandboxes that were opened and not closed. Cheap to clone; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Opened {
    sandboxes: Arc<Mutex<BTreeSet<SandboxId>>>,
}

impl Opened {
    /// Learns from the answer to a call. A sandbox that existed before is not this server's to close.
    pub fn learn(&self, facts: &Facts, output: &Value) {
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        sandboxes.extend((facts.made)(output));
    }

    pub fn all(&self) -> Vec<SandboxId> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
