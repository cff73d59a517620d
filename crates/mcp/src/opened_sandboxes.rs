//! The sandboxes a client has had made, for a server that closes them when the client goes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use coracle_core::SandboxId;
use coracle_engine::catalogue::Facts;
use serde_json::Value;

/// What was opened and not closed. Cheap to clone; all clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Opened {
    sandboxes: Arc<Mutex<BTreeSet<SandboxId>>>,
}

impl Opened {
    /// Learns from the answer to a call. One that was there before is somebody else's to close.
    pub fn learn(&self, facts: &Facts, output: &Value) {
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        sandboxes.extend((facts.made)(output));
    }

    pub fn all(&self) -> Vec<SandboxId> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
