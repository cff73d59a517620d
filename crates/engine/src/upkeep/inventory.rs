//! What there is now, in numbers, for metrics.

use std::collections::BTreeMap;

use coracle_core::headroom::Level;
use coracle_core::store::Which;
use coracle_core::{Record, Result, SandboxId, State};

use super::Upkeep;

/// A count of everything that has not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// How many sandboxes are in each state, but for the spares, which have no owner yet.
    pub states: BTreeMap<State, u64>,
    /// How many were made ahead and wait to be taken, in any process.
    pub spares: u64,
    /// How often the network was refused to each sandbox that has any.
    pub denied: Vec<(SandboxId, u64)>,
    /// How full the disk of the home is, where that can be told.
    pub level: Option<Level>,
}

impl Upkeep {
    /// Counts what there is.
    pub fn inventory(&self) -> Result<Inventory> {
        let records = self.records.store().list(Which::Live)?;
        let mut inventory = Inventory { level: self.headroom.level(), ..Inventory::default() };
        for record in &records {
            *inventory.states.entry(record.state).or_default() += 1;
        }
        inventory.spares = inventory.states.remove(&State::Spare).unwrap_or_default();
        let networked = |record: &&Record| !record.spec.network.is_none();
        let denied = |record: &Record| (record.id.clone(), self.egress.last_denial(record));
        inventory.denied = records.iter().filter(networked).map(denied).collect();
        Ok(inventory)
    }
}
