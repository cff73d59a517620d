//! Finding a guest again after the way to it broke: an engine can be restarted under containers that go on running.

use std::time::{Duration, Instant};

use coracle_core::{Cancel, Epoch, Error, Kind, Record, State};

use super::Access;
use crate::guest::Guest;

/// An engine that is started again answers within seconds, even with many containers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const APART: Duration = Duration::from_millis(100);

/// How often one caller goes looking. An engine that breaks off more often while one command runs is none to wait for.
pub(crate) const TIMES_MAX: u32 = 16;

impl Access {
    /// Returns a new connection to a guest whose last one has ended; nothing if it is gone, or not back in time. What
    /// is on this machine has no way that could break: there the end of a connection is the end of its guest.
    pub(crate) fn rejoin(&self, cancel: &Cancel, record: &Record, epoch: Epoch) -> Option<Guest> {
        if self.placement.backend_of(record).is_ok_and(|backend| backend.ends_with_this_machine()) {
            return None;
        }
        let began = Instant::now();
        loop {
            match self.reach(record, epoch) {
                Ok(guest) => return Some(guest),
                Err(error) if began.elapsed() > PATIENCE || !self.may_come_back(record, &error) => {
                    return None;
                }
                Err(_) if cancel.sleep(APART) => return None,
                Err(_) => {}
            }
        }
    }

    /// Tells whether the backend could not be asked, as opposed to it having said that the guest is gone.
    fn may_come_back(&self, record: &Record, error: &Error) -> bool {
        error.kind == Kind::NotAvailable
            && self.records.find(&record.id).is_ok_and(|row| State::accepts_looks(row.state))
    }
}
