//! A package cache in memory, which panics when it is misused.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_core::clock::Timestamp;
use coracle_core::install::{Claim, Draft, Key, PackageCache, Rules, Sealed};
use coracle_core::{Cancel, Result, TenantId};

/// How often a caller that waits looks again.
const PAUSE: Duration = Duration::from_millis(1);

/// Keeps packages for as long as anybody has it. Clones share it, as processes share a home.
#[derive(Debug, Clone, Default)]
pub struct FakePackages {
    kept: Arc<Mutex<Kept>>,
    rules: Rules,
}

#[derive(Debug, Default)]
struct Kept {
    entries: BTreeMap<String, Entry>,
    /// Entries that are being made.
    drafts: BTreeSet<String>,
    /// Why the last draft of an entry failed, and how many have.
    failures: BTreeMap<String, (u64, String)>,
}

#[derive(Debug, Clone)]
struct Entry {
    tenant: Option<TenantId>,
    contents: Arc<Vec<u8>>,
    used: Timestamp,
}

impl FakePackages {
    /// Returns the same packages under other rules.
    pub fn ruled_by(&self, rules: Rules) -> Self {
        Self { rules, ..self.clone() }
    }

    /// Returns the contents of every entry.
    pub fn contents(&self) -> Vec<Vec<u8>> {
        self.kept().entries.values().map(|entry| entry.contents.to_vec()).collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PackageCache for FakePackages {
    fn claim(&self, key: &Key, now: Timestamp, cancel: &Cancel) -> Result<Claim> {
        let name = key.name();
        let failures = |kept: &Kept| kept.failures.get(&name).map_or(0, |(count, _)| *count);
        let before = failures(&self.kept());
        loop {
            let mut kept = self.kept();
            if let Some(entry) = kept.entries.get_mut(&name) {
                entry.used = now;
                return Ok(Claim::Sealed(Box::new(FakeSealed(entry.contents.clone()))));
            }
            if failures(&kept) != before {
                return Ok(Claim::Failed(kept.failures[&name].1.clone()));
            }
            if kept.drafts.insert(name.clone()) {
                let draft = FakeDraft {
                    cache: self.clone(),
                    tenant: key.project.tenant.clone(),
                    name,
                    contents: Vec::new(),
                };
                return Ok(Claim::Vacant(Box::new(draft)));
            }
            drop(kept);
            if cancel.sleep(PAUSE) {
                return Err(cancel.reason());
            }
        }
    }

    fn sweep(&self, now: Timestamp) -> Result<usize> {
        let (mut kept, keep) = (self.kept(), self.rules.keep);
        let count = kept.entries.len();
        let age = |entry: &Entry| now.as_millis().saturating_sub(entry.used.as_millis());
        // One that somebody holds is in use.
        kept.entries.retain(|_, entry| {
            Duration::from_millis(age(entry)) < keep || Arc::strong_count(&entry.contents) > 1
        });
        Ok(count - kept.entries.len())
    }

    fn taken_by(&self, tenant: Option<&TenantId>) -> u64 {
        let kept = self.kept();
        let own = kept.entries.values().filter(|entry| entry.tenant.as_ref() == tenant);
        own.map(|entry| entry.contents.len() as u64).sum()
    }
}

#[derive(Debug)]
struct FakeSealed(Arc<Vec<u8>>);

impl Sealed for FakeSealed {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(self.0.as_slice()))
    }
}

#[derive(Debug)]
struct FakeDraft {
    cache: FakePackages,
    tenant: Option<TenantId>,
    name: String,
    contents: Vec<u8>,
}

impl Write for FakeDraft {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if (self.contents.len() + data.len()) as u64 > self.cache.rules.entry_max {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the packages take more than they may"));
        }
        self.contents.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Draft for FakeDraft {
    fn seal(mut self: Box<Self>, now: Timestamp) -> Result<Box<dyn Sealed>> {
        let contents = Arc::new(std::mem::take(&mut self.contents));
        let entry = Entry { tenant: self.tenant.clone(), contents: contents.clone(), used: now };
        let old = self.cache.kept().entries.insert(self.name.clone(), entry);
        assert!(old.is_none(), "an entry was made twice");
        Ok(Box::new(FakeSealed(contents)))
    }

    fn fail(self: Box<Self>, reason: &str) {
        let mut kept = self.cache.kept();
        let failure = kept.failures.entry(self.name.clone()).or_default();
        *failure = (failure.0 + 1, reason.to_owned());
    }
}

impl Drop for FakeDraft {
    fn drop(&mut self) {
        self.cache.kept().drafts.remove(&self.name);
    }
}
