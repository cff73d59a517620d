//! The port to durable state.

use std::collections::BTreeSet;

use crate::clock::Timestamp;
use crate::error::Result;
use crate::event;
use crate::ids::{InstanceId, SandboxId, SessionKey, TenantId};
use crate::observed::{Anchor, Reading};
use crate::record::Record;

/// How much an acknowledged change is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Survives a crash of coracle. A reboot makes it meaningless anyway.
    Process,
    /// Survives power loss: ownership, and what workflows and hibernation promise.
    Power,
}

/// What an atomic open found or made.
#[derive(Debug, Clone, PartialEq)]
pub enum Opened {
    Created(Record),
    Existing(Record),
}

/// Held while a sandbox is being made or destroyed. Dropping it, or dying, lets go.
pub trait Work: Send {}

/// Which records a listing wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those that have not ended.
    Live,
    /// Those, and what has expired since then, in observed time: its owner has to learn why it is gone.
    Shown {
        expired_since: Timestamp,
    },
    All,
}

/// Keeps records. Safe to use from many threads and processes at once.
///
/// Whatever changes a record appends the events that tell of it ([`event::between`]), in the same transaction. When a
/// sandbox has ended, or is lost, so have all its execs: those whose end nobody has told end there ([`event::End::UNSEEN`]).
pub trait Store: event::Log {
    /// Returns the id of this home; the same for as long as the home exists.
    fn instance(&self) -> Result<InstanceId>;

    /// Counts the time that was observed until now, for all who use the home, and returns where to count on from.
    fn observe(&self, reading: &Reading) -> Result<Anchor>;

    /// Inserts the record, unless a live one of the same tenant with the same session key is there; then returns that one.
    ///
    /// Atomic: of any number of callers with one key exactly one gets `Created`.
    fn open(&self, record: Record) -> Result<Opened>;

    /// Returns the record, or `None` if there never was one.
    fn find(&self, id: &SandboxId) -> Result<Option<Record>>;

    /// Returns the live record with this session key; each tenant has keys of its own.
    fn find_key(&self, tenant: Option<&TenantId>, key: &SessionKey) -> Result<Option<Record>>;

    /// Returns records, oldest first.
    fn list(&self, which: Which) -> Result<Vec<Record>>;

    /// Returns at most `max` records of a tenant, of everybody if absent, the newest first and without spares. What others
    /// have makes it no slower. Environments are left out: they may be most of a record, and nobody lists them.
    fn newest(&self, tenant: Option<&TenantId>, which: Which, max: usize) -> Result<Vec<Record>>;

    /// Returns how many sandboxes of a tenant there are that take room: live, and not lost.
    fn count(&self, tenant: &TenantId) -> Result<usize>;

    /// Returns the backends sandboxes were on that have ended since then, in observed time.
    fn ended_on(&self, since: Timestamp) -> Result<BTreeSet<String>>;

    /// Changes a record by `decide`, in one transaction no other writer can come between.
    ///
    /// An error from `decide` leaves the record as it was and is returned. An unknown id is `not_found`. What is kept and
    /// returned of one that has ended is [`as_kept`].
    fn update(
        &self,
        id: &SandboxId,
        durability: Durability,
        decide: &mut dyn FnMut(Record) -> Result<Record>,
    ) -> Result<Record>;

    /// Forgets ended records that changed last before `before`, in observed time; of each tenant, and of the home's own
    /// people, more until `keep` are left, the oldest first. Forgets also what dead holders of the right to work left
    /// behind. Returns how many records.
    fn forget(&self, before: Timestamp, keep: usize) -> Result<usize>;

    /// Takes the right to make or destroy this sandbox, waiting for whoever has it.
    fn work_on(&self, id: &SandboxId) -> Result<Box<dyn Work>>;

    /// Takes that right if nobody has it, without waiting.
    fn try_work_on(&self, id: &SandboxId) -> Result<Option<Box<dyn Work>>>;
}

/// Returns a record as it is kept. One that has ended is there to be looked at, for days: nobody needs its environment any
/// more, which may be most of it and hold secrets.
pub fn as_kept(mut record: Record) -> Record {
    if record.state.is_ended() {
        record.spec.env.clear();
    }
    record
}
