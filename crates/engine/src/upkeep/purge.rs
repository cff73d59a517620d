//! Removing everything of a home, of every owner and on every backend. Safe to repeat after a crash at any point.
//!
//! The home itself is removed by the caller, which knows where it is, and only if this leaves no trouble: as long as something
//! could not be reached, the records say what and where.

use coracle_core::store::Which;
use coracle_core::{Error, Kind, Record, Result, State};

use super::Upkeep;
use crate::crash;
use crate::lifecycle::teardown::Afterwards;

/// Sandboxes that others make meanwhile, and what was found without a record, are seen in the next round.
const ROUNDS: usize = 3;

/// What was removed and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Purged {
    pub sandboxes: usize,
    pub volumes: usize,
    /// What is left on backends that do not answer, because the person gave up on it.
    pub forgotten: Vec<String>,
    /// What could not be removed, and why; empty if nothing is left.
    pub trouble: Vec<String>,
}

impl Upkeep {
    /// Destroys every sandbox, then has every backend remove what it keeps beside them. Of the backends in `forget`,
    /// those that do not answer are given up: what is there stays there, and is named.
    pub fn purge(&self, forget: &[String]) -> Result<Purged> {
        let mut purged = Purged::default();
        let given_up = self.unreachable(forget)?;
        let names: Vec<String> = given_up.iter().map(|(name, _)| name.clone()).collect();
        for (name, error) in &given_up {
            self.forget_all(name, error, &mut purged)?;
        }
        for _ in 0..ROUNDS {
            purged.trouble.clear();
            // What has no record gets one here, and what is half removed is finished.
            purged.trouble.extend(self.sweep_except(&names)?.trouble);
            let records = self.records.store().list(Which::Live)?;
            if records.is_empty() {
                break;
            }
            for record in &records {
                match self.purge_one(record) {
                    Ok(()) => purged.sandboxes += 1,
                    Err(error) => purged.trouble.push(format!("{}: {}", record.id, error.chain())),
                }
            }
            self.records.crash_at(crash::PURGE_SANDBOXES_AFTER);
        }
        self.purge_backends(&names, &mut purged);
        self.records.crash_at(crash::PURGE_BACKENDS_AFTER);
        Ok(purged)
    }

    fn purge_one(&self, record: &Record) -> Result<()> {
        self.expect_untended(record)?;
        self.lifecycle.teardown(&record.id, Afterwards::Nothing, &|_| Ok(()))
    }

    /// Refuses a spare that a process tends: it holds the work lock for as long as it runs, too long to wait for.
    fn expect_untended(&self, record: &Record) -> Result<()> {
        if record.state == State::Spare
            && self.headroom.freeing(|| self.records.store().try_work_on(&record.id))?.is_none()
        {
            return Err(Error::new(Kind::Conflict, "a process keeps it ready for others")
                .hint("end every program that uses this home, then try again"));
        }
        Ok(())
    }

    /// Returns which of these backends do not answer, each with what it says instead. Those that do are not given up,
    /// and one that cannot be asked for a reason of our own is an error.
    fn unreachable(&self, names: &[String]) -> Result<Vec<(String, Error)>> {
        let mut silent = Vec::new();
        for name in names {
            match self.placement.named(name)?.survey() {
                Ok(_) => {}
                Err(error) if error.kind == Kind::NotAvailable => silent.push((name.clone(), error)),
                Err(error) => return Err(error),
            }
        }
        Ok(silent)
    }

    fn forget_all(&self, backend: &str, error: &Error, purged: &mut Purged) -> Result<()> {
        for record in
            self.records.store().list(Which::Live)?.iter().filter(|record| record.backend == backend)
        {
            self.expect_untended(record)?;
            purged.forgotten.extend(self.lifecycle.forget(&record.id, &|_| Ok(()), error)?);
            purged.sandboxes += 1;
        }
        purged
            .forgotten
            .push(format!("volumes and the guest's program, if `{backend}` has any ({})", error.chain()));
        Ok(())
    }

    fn purge_backends(&self, except: &[String], purged: &mut Purged) {
        for backend in self.placement.backends() {
            if except.iter().any(|name| name == backend.name()) {
                continue;
            }
            match self.headroom.freeing(|| backend.purge()) {
                Ok(volumes) => purged.volumes += volumes,
                Err(error) => purged.trouble.push(format!("{}: {}", backend.name(), error.chain())),
            }
            // What is still there would outlive the home that says whose it is.
            match backend.remains() {
                Ok(remains) => purged.trouble.extend(remains),
                Err(error) => purged.trouble.push(format!("{}: {}", backend.name(), error.chain())),
            }
        }
    }
}
