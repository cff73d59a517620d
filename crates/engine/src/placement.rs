//! Where sandboxes are made: which backends there are, what each can do, and which is taken.

pub(crate) mod backends;
pub mod probes;
pub mod roster;

use std::sync::Arc;

use coracle_core::selection::Preference;
use coracle_core::{Backend, Record, Result};

use self::roster::Roster;

/// The backends of a home, and the operator's choice among them. It knows no caller and no record but those it is shown.
#[derive(Debug)]
pub struct Placement {
    roster: Roster,
    preference: Preference,
}

impl Placement {
    pub(crate) fn new(roster: Roster, preference: Preference) -> Self {
        Self { roster, preference }
    }

    /// Returns the backends that are looked for on every machine.
    pub fn backends(&self) -> &[Arc<dyn Backend>] {
        self.roster.all()
    }

    /// Returns the names of backends beside those that something of the home is on.
    pub(crate) fn settled(&self) -> Vec<String> {
        self.roster.settled()
    }

    /// Returns the backend of this name. `not_available` if there is no such kind.
    pub(crate) fn named(&self, name: &str) -> Result<&Arc<dyn Backend>> {
        self.roster.named(name)
    }

    /// Returns the backend that made a sandbox.
    pub(crate) fn backend_of(&self, record: &Record) -> Result<&Arc<dyn Backend>> {
        self.named(&record.backend)
    }
}
