//! Falling asleep: the guest has ended, and the files stay.

use coracle_core::backend::GuestEnd;
use coracle_core::record::{Kept, KeptAt};
use coracle_core::store::Durability;
use coracle_core::{Record, Result, State, lifecycle};

use super::Entry;
use crate::crash;

impl Entry {
    /// Ends what is left of a sandbox's processes and records that it sleeps. The caller holds its work lock.
    ///
    /// In this order: a row that says `hibernated` promises that the files survive a power cut.
    pub(crate) fn put_to_rest(&self, record: &Record) -> Result<Record> {
        let hibernation = self.hibernation_of(record)?;
        let end = self.placement.backend_of(record)?.guest_end(&record.id);
        // Others that were idle, in containers of engines, leave nothing to the next guest.
        let orderly = matches!(end, Some(GuestEnd::Asleep { .. }));
        self.egress.unkeep(&record.id)?;
        let bytes = self.headroom.freeing(|| hibernation.rest(&record.id))?;
        self.records.crash_at(crash::REST_BACKEND_AFTER);
        let since = self.records.moment()?;
        let slept = self.headroom.freeing(|| {
            self.records.change(&record.id, Durability::Power, &mut |mut row| {
                let event = match row.state {
                    State::Resuming => lifecycle::Event::NotStarted,
                    State::Hibernated => return Ok(row),
                    _ => lifecycle::Event::Slept,
                };
                row.state = row.state.step(event).map_err(|refused| refused.into_error(&row.id))?;
                // Where it did not wake, it sleeps as it did before.
                let fresh = Kept { at: KeptAt::Place, bytes, since, orderly, ends_soon: None };
                row.kept = Some(Kept { bytes, ..row.kept.unwrap_or(fresh) });
                Ok(row)
            })
        })?;
        self.records.crash_at(crash::REST_ROW_AFTER);
        Ok(slept)
    }
}
