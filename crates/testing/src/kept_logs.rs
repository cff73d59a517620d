//! Kept output in memory, which panics when it is misused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_core::clock::Timestamp;
use coracle_core::error::Result;
use coracle_core::ids::{ExecId, SandboxId, TenantId};
use coracle_core::{KeptExec, KeptLogs, Record};

/// Keeps output for as long as anybody has it. Clones share it, as processes share a home.
///
/// It panics on what no caller may do: writing where nothing is kept, writing nothing, and naming an exec twice.
#[derive(Debug, Clone)]
pub struct FakeLogs {
    kept: Arc<Mutex<BTreeMap<SandboxId, Log>>>,
    retention: Duration,
}

/// The output of one sandbox.
#[derive(Debug, Clone)]
struct Log {
    tenant: Option<TenantId>,
    since: Timestamp,
    execs: Vec<KeptExec>,
}

impl FakeLogs {
    /// Keeps output for this long. A retention of zero keeps none.
    pub fn new(retention: Duration) -> Self {
        Self { kept: Arc::default(), retention }
    }

    /// Returns the same output, kept for another time.
    pub fn kept_for(&self, retention: Duration) -> Self {
        Self { retention, ..self.clone() }
    }

    /// Returns of how many sandboxes there is output, however old.
    pub fn count(&self) -> usize {
        self.kept().len()
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<SandboxId, Log>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn execs_of(&self, record: &Record, now: Timestamp) -> Option<Vec<KeptExec>> {
        let kept = self.kept();
        let fresh = kept.get(&record.id).filter(|log| !self.is_over(log, now));
        fresh.map(|log| log.execs.clone())
    }

    fn is_over(&self, log: &Log, now: Timestamp) -> bool {
        let age = now.as_millis().checked_sub(log.since.as_millis());
        age.is_some_and(|age| Duration::from_millis(age) >= self.retention)
    }
}

impl KeptLogs for FakeLogs {
    fn is_on(&self) -> bool {
        !self.retention.is_zero()
    }

    fn write(&self, record: &Record, kept: &[KeptExec], now: Timestamp, written: &dyn Fn()) -> Result<()> {
        assert!(self.is_on(), "output was written where none is kept");
        assert!(!kept.is_empty(), "a log of nothing was written");
        let ids: BTreeSet<_> = kept.iter().map(KeptExec::exec_id).collect();
        assert_eq!(ids.len(), kept.len(), "an exec was named twice");
        // Not under the lock: others may read meanwhile.
        written();
        let log = Log { tenant: record.tenant.clone(), since: now, execs: kept.to_vec() };
        self.kept().insert(record.id.clone(), log);
        Ok(())
    }

    fn read(&self, record: &Record, exec: &ExecId, now: Timestamp) -> Result<Option<KeptExec>> {
        let execs = self.execs_of(record, now).unwrap_or_default();
        Ok(execs.into_iter().find(|kept| kept.exec_id() == exec))
    }

    fn execs(&self, record: &Record, now: Timestamp) -> Result<Option<Vec<ExecId>>> {
        let execs = self.execs_of(record, now);
        Ok(execs.map(|execs| execs.iter().map(|kept| kept.exec_id().clone()).collect()))
    }

    fn taken_by(&self, tenant: &TenantId) -> u64 {
        let kept = self.kept();
        let own = kept.values().filter(|log| log.tenant.as_ref() == Some(tenant));
        own.flat_map(|log| &log.execs).map(|kept| kept.line().len() as u64).sum()
    }

    fn sweep(&self, now: Timestamp) -> Result<usize> {
        let mut kept = self.kept();
        let count = kept.len();
        kept.retain(|_, log| !self.is_over(log, now));
        Ok(count - kept.len())
    }
}
