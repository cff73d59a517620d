//! The port to durable state.

use std::collections::BTreeSet;

use crate::cancel::Cancel;
use crate::clock::Timestamp;
use crate::error::Result;
use crate::event;
use crate::ids::{InstanceId, SandboxId, SessionKey, TenantId};
use crate::lifecycle::State;
use crate::observed::{Anchor, Reading};
use crate::record::Record;
use crate::tenant;

/// What an acknowledged change survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Survives a crash of coracle. A reboot makes it meaningless anyway.
    Process,
    /// Survives power loss: ownership, and everything workflows and hibernation rely on.
    Power,
}

/// What an atomic open found or made.
#[derive(Debug, Clone, PartialEq)]
pub enum Opened {
    Created(Record),
    Existing(Record),
}

/// How many sandboxes a tenant may have. The store checks it where a record begins to take one of these places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    pub most: usize,
    /// How many places the caller is about to take, this one included.
    pub more: usize,
    /// How many of the tenant's may sleep, where the caller makes one that may sleep one day. Falling asleep cannot be
    /// refused, so a new one is.
    pub asleep: Option<usize>,
}

impl Quota {
    /// Refuses with `limit_exceeded` where too many places are taken, or too many sandboxes sleep.
    pub fn admit(self, taken: Population) -> Result<()> {
        if let Some(most) = self.asleep.filter(|most| taken.asleep >= *most) {
            return Err(tenant::too_many_asleep(most));
        }
        match taken.places.saturating_add(self.more) > self.most {
            true => Err(tenant::too_many(self.most)),
            false => Ok(()),
        }
    }
}

/// How many sandboxes a tenant has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Population {
    /// Those that take one of its places.
    pub places: usize,
    /// Those that sleep: they take disk alone.
    pub asleep: usize,
}

/// The right to make or destroy a sandbox. Dropping it, or dying, releases it.
pub trait Work: Send {}

/// Which records a listing wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those that have not ended.
    Live,
    /// Those, and sandboxes that expired since then, in observed time: their owners must be able to learn why they
    /// are gone.
    Shown {
        expired_since: Timestamp,
    },
    All,
}

/// Keeps records. Safe to use from many threads and processes at once.
///
/// Every change of a record appends its events ([`event::between`]) in the same transaction. When a sandbox has ended
/// or is lost, so have all its execs: those without a reported end get [`event::End::UNSEEN`].
pub trait Store: event::Log {
    /// Returns the id of this home; the same for as long as the home exists.
    fn instance(&self) -> Result<InstanceId>;

    /// Adds the time observed until now, for all processes of the home, and returns the anchor to count on from.
    fn observe(&self, reading: &Reading) -> Result<Anchor>;

    /// Inserts the record. If the tenant has a live one with the same session key, returns that one instead.
    ///
    /// Atomic: of any number of callers with one key exactly one gets `Created`.
    fn open(&self, record: Record) -> Result<Opened> {
        self.open_within(record, None)
    }

    /// Does the same, and refuses with `limit_exceeded` a record for which its tenant has no place left. A record that is
    /// returned because it exists takes no new place.
    ///
    /// Atomic with the insertion: of two callers that want the last place, even in two processes, one gets it.
    fn open_within(&self, record: Record, quota: Option<Quota>) -> Result<Opened>;

    /// Returns the record, or `None` if there never was one.
    fn find(&self, id: &SandboxId) -> Result<Option<Record>>;

    /// Returns the live record with this session key; each tenant has its own keys.
    fn find_key(&self, tenant: Option<&TenantId>, key: &SessionKey) -> Result<Option<Record>>;

    /// Returns records, oldest first.
    fn list(&self, which: Which) -> Result<Vec<Record>>;

    /// Returns at most `max` records of a tenant (of all if absent), the newest first and without spares. The records
    /// of other tenants do not make it slower. Environments are left out: they may be most of a record, and no
    /// listing shows them.
    fn newest(&self, tenant: Option<&TenantId>, which: Which, max: usize) -> Result<Vec<Record>>;

    /// Returns how many sandboxes of a tenant take a place, and how many sleep.
    fn count(&self, tenant: &TenantId) -> Result<Population>;

    /// Returns the backends of sandboxes that ended since then, in observed time.
    fn ended_on(&self, since: Timestamp) -> Result<BTreeSet<String>>;

    /// Changes a record by `decide`, in one transaction that excludes other writers.
    ///
    /// An error from `decide` leaves the record as it was and is returned. An unknown id is `not_found`. An ended
    /// record is stored and returned as [`as_kept`] makes it.
    fn update(
        &self,
        id: &SandboxId,
        durability: Durability,
        decide: &mut dyn FnMut(Record) -> Result<Record>,
    ) -> Result<Record> {
        self.update_within(id, durability, None, decide)
    }

    /// Does the same, and refuses with `limit_exceeded` a change by which the record takes a place of a tenant that has
    /// none left. The record is then as it was.
    fn update_within(
        &self,
        id: &SandboxId,
        durability: Durability,
        quota: Option<Quota>,
        decide: &mut dyn FnMut(Record) -> Result<Record>,
    ) -> Result<Record>;

    /// Forgets ended records that changed last before `before`, in observed time; then, for each tenant and for the
    /// home's own people, the oldest until `keep` are left. Also removes work locks of dead processes. Returns how
    /// many records.
    fn forget(&self, before: Timestamp, keep: usize) -> Result<usize>;

    /// Takes the right to make or destroy this sandbox; waits while another process has it. A cancelled call stops
    /// waiting, with the reason of its end; it still gets a right that is free.
    fn work_on(&self, id: &SandboxId, cancel: &Cancel) -> Result<Box<dyn Work>>;

    /// Takes that right if it is free, without waiting.
    fn try_work_on(&self, id: &SandboxId) -> Result<Option<Box<dyn Work>>>;
}

/// Tells whether a record takes one of its tenant's places: those of what has ended, is lost or sleeps are free.
pub fn takes_place(record: &Record) -> bool {
    record.state.is_live() && !matches!(record.state, State::Lost | State::Hibernated)
}

/// Returns the tenant of whose places a record takes one that it did not take before.
pub fn begins_to_take<'a>(before: Option<&Record>, after: &'a Record) -> Option<&'a TenantId> {
    let took = before.is_some_and(|before| takes_place(before) && before.tenant == after.tenant);
    after.tenant.as_ref().filter(|_| takes_place(after) && !took)
}

/// Returns a record as it is stored. An ended one stays for days so that people can look at it, without its
/// environment: that is unused by then, may be most of the record, and may hold secrets.
pub fn as_kept(mut record: Record) -> Record {
    if record.state.is_ended() {
        record.spec.env.clear();
    }
    record
}
