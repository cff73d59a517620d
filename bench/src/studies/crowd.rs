//! Many idle sandboxes at once.

use anyhow::Result;
use coracle::{Coracle, SandboxId, SpecInput};
use serde_json::json;

/// Idle sandboxes. All are closed when it is dropped.
pub struct Crowd<'a> {
    coracle: &'a Coracle,
    pub ids: Vec<SandboxId>,
}

impl<'a> Crowd<'a> {
    pub fn gather(coracle: &'a Coracle, number: usize, spec: &SpecInput) -> Result<Self> {
        let mut crowd = Self { coracle, ids: Vec::with_capacity(number) };
        for _ in 0..number {
            // The handle is dropped: it would keep a connection, and a thousand of those are more than a process may have.
            crowd.ids.push(coracle.create(spec.clone())?.id().clone());
        }
        Ok(crowd)
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        for id in &self.ids {
            if let Err(error) = self.coracle.call("sandbox_close", json!({"sandbox_id": id.as_str()})) {
                eprintln!("could not close `{id}`: {error}");
            }
        }
    }
}
