//! A store in memory that panics on misuse.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use coracle_core::cancel::Cancel;
use coracle_core::clock::Timestamp;
use coracle_core::error::{Error, Kind, Result};
use coracle_core::event::{Event, Filter, Log, Page};
use coracle_core::ids::{InstanceId, SandboxId, SessionKey, TenantId, TokenId};
use coracle_core::lifecycle::{self, State};
use coracle_core::observed::{Anchor, Reading};
use coracle_core::record::Record;
use coracle_core::store::{self, Durability, Opened, Population, Quota, Store, Which, Work};
use coracle_core::token::{self, Token, Tokens};

use super::events::Events;
use super::kept_logs::FakeLogs;
use super::packages::FakePackages;
use super::sample;

/// The default of the settings.
const LOGS_RETENTION: Duration = Duration::from_secs(3600);

/// A strict store in memory. Clones share it, as processes share a home.
///
/// It panics on what no caller may do: using the store from inside `update`, waiting for a work lock that the same
/// thread holds, a state no event leads to, an epoch that goes back, a change of owner without a higher epoch or
/// without `Durability::Power`.
#[derive(Debug, Clone)]
pub struct FakeStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    instance: InstanceId,
    /// The thread that is inside `update`.
    deciding: Mutex<Option<ThreadId>>,
    records: Mutex<BTreeMap<SandboxId, Record>>,
    events: Events,
    working: Mutex<BTreeMap<SandboxId, ThreadId>>,
    freed: Condvar,
    tokens: Mutex<BTreeMap<TokenId, Token>>,
    anchor: Mutex<Option<Anchor>>,
    logs: FakeLogs,
    packages: FakePackages,
    reads: AtomicU64,
}

impl FakeStore {
    /// Returns how often a record was read.
    pub fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::SeqCst)
    }

    pub fn new() -> Self {
        Self(Arc::new(Shared {
            instance: sample::instance(),
            deciding: Mutex::new(None),
            records: Mutex::default(),
            events: Events::default(),
            working: Mutex::default(),
            freed: Condvar::new(),
            tokens: Mutex::default(),
            anchor: Mutex::default(),
            logs: FakeLogs::new(LOGS_RETENTION),
            packages: FakePackages::default(),
            reads: AtomicU64::new(0),
        }))
    }

    /// Inserts a record unchecked: the store as another process left it.
    pub fn plant(&self, record: Record) {
        self.records().insert(record.id.clone(), record);
    }

    /// Returns where the output of the same home is kept, for an hour.
    pub fn kept_logs(&self) -> FakeLogs {
        self.0.logs.clone()
    }

    /// Returns where the packages of the same home are kept.
    pub fn packages(&self) -> FakePackages {
        self.0.packages.clone()
    }

    /// Releases all work locks, as the kernel does for a killed process.
    pub fn let_go_of_all_work(&self) {
        lock(&self.0.working).clear();
        self.0.freed.notify_all();
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<SandboxId, Record>> {
        let deciding = *lock(&self.0.deciding);
        assert_ne!(deciding, Some(thread::current().id()), "the store was used from inside `update`");
        lock(&self.0.records)
    }

    fn hold(
        &self,
        mut working: MutexGuard<'_, BTreeMap<SandboxId, ThreadId>>,
        id: &SandboxId,
    ) -> Box<dyn Work> {
        working.insert(id.clone(), thread::current().id());
        Box::new(FakeWork { id: id.clone(), shared: self.0.clone() })
    }
}

impl Default for FakeStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for FakeStore {
    fn instance(&self) -> Result<InstanceId> {
        Ok(self.0.instance.clone())
    }

    fn observe(&self, reading: &Reading) -> Result<Anchor> {
        let mut anchor = lock(&self.0.anchor);
        let moved = anchor.as_ref().map_or_else(|| Anchor::first(reading), |anchor| anchor.moved(reading));
        Ok(anchor.insert(moved).clone())
    }

    fn open_within(&self, record: Record, quota: Option<Quota>) -> Result<Opened> {
        let mut records = self.records();
        if let Some(existing) =
            record.key.as_ref().and_then(|key| with_key(&records, record.tenant.as_ref(), key))
        {
            return Ok(Opened::Existing(existing.clone()));
        }
        let first = matches!(record.state, State::Creating | State::Quarantined);
        assert!(first, "a sandbox began its life as {}", record.state);
        if records.contains_key(&record.id) {
            return Err(Error::new(Kind::Conflict, format!("there is a sandbox `{}` already", record.id)));
        }
        check_quota(&records, quota, None, &record)?;
        records.insert(record.id.clone(), record.clone());
        self.0.events.changed(None, &record);
        Ok(Opened::Created(record))
    }

    fn find(&self, id: &SandboxId) -> Result<Option<Record>> {
        self.0.reads.fetch_add(1, Ordering::SeqCst);
        Ok(self.records().get(id).cloned())
    }

    fn find_key(&self, tenant: Option<&TenantId>, key: &SessionKey) -> Result<Option<Record>> {
        self.0.reads.fetch_add(1, Ordering::SeqCst);
        Ok(with_key(&self.records(), tenant, key).cloned())
    }

    fn list(&self, which: Which) -> Result<Vec<Record>> {
        let wanted = |record: &&Record| match which {
            Which::All => true,
            Which::Live => record.state.is_live(),
            Which::Shown { expired_since } => {
                let expired = record.state == State::Expired && record.observed_at >= expired_since;
                record.state.is_live() || expired
            }
        };
        let mut records: Vec<_> = self.records().values().filter(wanted).cloned().collect();
        records.sort_by_key(|record| (record.created_at, record.id.clone()));
        Ok(records)
    }

    fn newest(&self, tenant: Option<&TenantId>, which: Which, max: usize) -> Result<Vec<Record>> {
        let mut records = Store::list(self, which)?;
        records.retain(|record| record.state != State::Spare);
        records.retain(|record| tenant.is_none() || record.tenant.as_ref() == tenant);
        records.iter_mut().for_each(|record| record.spec.env.clear());
        Ok(records.into_iter().rev().take(max).collect())
    }

    fn count(&self, tenant: &TenantId) -> Result<Population> {
        Ok(population_of(&self.records(), tenant))
    }

    fn ended_on(&self, since: Timestamp) -> Result<BTreeSet<String>> {
        let recent = |record: &&Record| !record.state.is_live() && record.observed_at >= since;
        Ok(self.records().values().filter(recent).map(|record| record.backend.clone()).collect())
    }

    fn update_within(
        &self,
        id: &SandboxId,
        durability: Durability,
        quota: Option<Quota>,
        decide: &mut dyn FnMut(Record) -> Result<Record>,
    ) -> Result<Record> {
        let mut records = self.records();
        let unknown = || Error::new(Kind::NotFound, format!("there is no sandbox `{id}`"));
        let before = records.get(id).ok_or_else(unknown)?.clone();
        let after = {
            let _deciding = Deciding::begin(&self.0);
            store::as_kept(decide(before.clone())?)
        };
        check_change(&before, &after, durability);
        if let Some(key) = after.key.as_ref().filter(|_| after.state.is_live())
            && let Some(other) =
                with_key(&records, after.tenant.as_ref(), key).filter(|other| other.id != *id)
        {
            return Err(Error::new(
                Kind::Conflict,
                format!("session key `{key}` is taken by sandbox `{}`", other.id),
            ));
        }
        check_quota(&records, quota, Some(&before), &after)?;
        records.insert(id.clone(), after.clone());
        self.0.events.changed(Some(&before), &after);
        Ok(after)
    }

    fn forget(&self, before: Timestamp, keep: usize) -> Result<usize> {
        let mut records = self.records();
        let count = records.len();
        records.retain(|_, record| record.state.is_live() || record.observed_at >= before);
        let mut ended: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for record in records.values().filter(|record| !record.state.is_live()) {
            ended.entry(record.tenant.clone()).or_default().push((record.observed_at, record.id.clone()));
        }
        for own in ended.values_mut() {
            own.sort();
            own.iter().rev().skip(keep).for_each(|(_, id)| drop(records.remove(id)));
        }
        Ok(count - records.len())
    }

    fn work_on(&self, id: &SandboxId, cancel: &Cancel) -> Result<Box<dyn Work>> {
        let store = self.clone();
        let _wakes = cancel.on_cancel(move || {
            // Under the lock, or it could come between a look and a wait.
            let _working = lock(&store.0.working);
            store.0.freed.notify_all();
        });
        let mut working = lock(&self.0.working);
        while let Some(holder) = working.get(id) {
            cancel.check()?;
            assert_ne!(*holder, thread::current().id(), "a thread waits for its own work on `{id}`");
            working = self.0.freed.wait(working).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(self.hold(working, id))
    }

    fn try_work_on(&self, id: &SandboxId) -> Result<Option<Box<dyn Work>>> {
        let working = lock(&self.0.working);
        Ok((!working.contains_key(id)).then(|| self.hold(working, id)))
    }
}

impl Log for FakeStore {
    fn tell(&self, reported: &[Event]) -> Result<()> {
        let records = self.records();
        for event in reported {
            let Some(sandbox) = &event.sandbox_id else { continue };
            let known = records.get(sandbox).is_some_and(|record| !record.is_untaken());
            assert!(known, "an event is about `{sandbox}`, which does not exist");
        }
        self.0.events.append(reported);
        Ok(())
    }

    fn events(&self, since: u64, filter: &Filter, max: usize) -> Result<Page> {
        Ok(self.0.events.page(since, filter, max))
    }

    fn newest_event(&self) -> Result<u64> {
        Ok(self.0.events.newest())
    }

    fn forget_events(&self, before: Timestamp, keep: u64) -> Result<u64> {
        Ok(self.0.events.forget(before, keep))
    }
}

impl Tokens for FakeStore {
    fn add(&self, token: &Token) -> Result<()> {
        match lock(&self.0.tokens).entry(token.id.clone()) {
            Entry::Vacant(place) => {
                place.insert(token.clone());
                Ok(())
            }
            Entry::Occupied(_) => {
                Err(Error::new(Kind::Conflict, format!("there is a token `{}` already", token.id)))
            }
        }
    }

    fn find(&self, id: &TokenId) -> Result<Option<Token>> {
        Ok(lock(&self.0.tokens).get(id).cloned())
    }

    fn list(&self) -> Result<Vec<Token>> {
        // Ids sort by the time of creation.
        Ok(lock(&self.0.tokens).values().cloned().collect())
    }

    fn revoke(&self, id: &TokenId, now: Timestamp) -> Result<Token> {
        let mut tokens = lock(&self.0.tokens);
        let token = tokens.get_mut(id).ok_or_else(|| token::unknown(id))?;
        token.revoked_at.get_or_insert(now);
        Ok(token.clone())
    }
}

fn check_change(before: &Record, after: &Record, durability: Durability) {
    let id = &before.id;
    assert_eq!(*id, after.id, "a sandbox changed its id");
    // A taken spare is new to its caller: as with a sandbox made for the caller, a reboot makes it meaningless.
    let given_out = before.state == State::Spare;
    assert!(given_out || before.created_at == after.created_at, "sandbox `{id}` changed when it was created");
    let led = lifecycle::Event::ALL.iter().any(|event| before.state.step(*event) == Ok(after.state));
    assert!(
        led || before.state == after.state,
        "no event leads `{id}` from {} to {}",
        before.state,
        after.state
    );
    if before.lease != after.lease {
        assert!(
            after.lease.epoch() > before.lease.epoch(),
            "ownership of `{id}` changed without a higher epoch"
        );
        assert!(
            given_out || durability == Durability::Power,
            "ownership of `{id}` changed in a way power loss could undo"
        );
    }
}

/// Counts the places a tenant has taken, and what sleeps of its.
fn population_of(records: &BTreeMap<SandboxId, Record>, tenant: &TenantId) -> Population {
    let own = || records.values().filter(|record| record.tenant.as_ref() == Some(tenant));
    Population {
        places: own().filter(|record| store::takes_place(record)).count(),
        asleep: own().filter(|record| record.state == State::Hibernated).count(),
    }
}

fn check_quota(
    records: &BTreeMap<SandboxId, Record>,
    quota: Option<Quota>,
    before: Option<&Record>,
    after: &Record,
) -> Result<()> {
    match (quota, store::begins_to_take(before, after)) {
        (Some(quota), Some(tenant)) => quota.admit(population_of(records, tenant)),
        _ => Ok(()),
    }
}

fn with_key<'a>(
    records: &'a BTreeMap<SandboxId, Record>,
    tenant: Option<&TenantId>,
    key: &SessionKey,
) -> Option<&'a Record> {
    let named = |record: &&Record| record.key.as_ref() == Some(key) && record.tenant.as_ref() == tenant;
    records.values().filter(|record| record.state.is_live()).find(named)
}

/// Ignores poison: a test that panics on purpose must not spoil the store for later checks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks the thread as being inside `update`, for as long as it lives.
struct Deciding<'a>(&'a Shared);

impl<'a> Deciding<'a> {
    fn begin(shared: &'a Shared) -> Self {
        *lock(&shared.deciding) = Some(thread::current().id());
        Self(shared)
    }
}

impl Drop for Deciding<'_> {
    fn drop(&mut self) {
        *lock(&self.0.deciding) = None;
    }
}

/// A held work lock.
struct FakeWork {
    id: SandboxId,
    shared: Arc<Shared>,
}

impl Work for FakeWork {}

impl Drop for FakeWork {
    fn drop(&mut self) {
        lock(&self.shared.working).remove(&self.id);
        self.shared.freed.notify_all();
    }
}
