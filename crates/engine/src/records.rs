//! The records of a home: how they are found and changed, the events that tell of it, and the time both are stamped with.
//!
//! The lowest component. It knows no caller, no backend and no guest.

mod changes;
mod event_writer;
mod observed;
pub mod watch;

use std::fmt;
use std::sync::Arc;

use coracle_core::event::Event;
use coracle_core::store::{Durability, Quota};
use coracle_core::{Clock, Error, Kind, Record, Result, SandboxId, Store, Timestamp};

use self::event_writer::EventWriter;
use self::observed::Observed;
use self::watch::Lookout;
use crate::ballast::Ballast;
use crate::crash::CrashPoints;

/// The records of one home.
pub struct Records {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The boot the machine is in; sandboxes of an earlier one are lost.
    boot: String,
    crash: CrashPoints,
    ballast: Ballast,
    lookout: Arc<Lookout>,
    event_writer: EventWriter,
    observed: Observed,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("boot", &self.boot).finish_non_exhaustive()
    }
}

/// What records are kept with.
pub(crate) struct RecordParts {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub boot: String,
    pub crash: CrashPoints,
    pub ballast: Ballast,
}

impl Records {
    pub(crate) fn new(parts: RecordParts) -> Self {
        let RecordParts { store, clock, boot, crash, ballast } = parts;
        let lookout = Arc::<Lookout>::default();
        let event_writer = EventWriter::new(store.clone(), lookout.clone());
        Self { store, clock, boot, crash, ballast, lookout, event_writer, observed: Observed::default() }
    }

    /// Returns the port, for what is not a change of a record: lists, work locks, new rows.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Returns the time by the machine's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the boot the machine is in.
    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    pub(crate) fn crash_at(&self, point: &'static str) {
        self.crash.at(point);
    }

    /// Tells whether records can be read.
    pub fn check_store(&self) -> Result<()> {
        let nobody: SandboxId = "sbx_0".parse()?;
        self.store.find(&nobody).map(drop)
    }

    pub(crate) fn find(&self, id: &SandboxId) -> Result<Record> {
        self.store.find(id)?.ok_or_else(|| unknown(id))
    }

    /// Changes a record and stamps it with the time.
    pub(crate) fn change(
        &self,
        id: &SandboxId,
        durability: Durability,
        decide: &mut dyn FnMut(Record) -> Result<Record>,
    ) -> Result<Record> {
        self.change_within(id, durability, None, decide)
    }

    /// Does the same, unless the record would take a place its tenant does not have.
    pub(crate) fn change_within(
        &self,
        id: &SandboxId,
        durability: Durability,
        quota: Option<Quota>,
        decide: &mut dyn FnMut(Record) -> Result<Record>,
    ) -> Result<Record> {
        let now = self.moment()?;
        self.event_writer.finish();
        self.store
            .update_within(id, durability, quota, &mut |record| {
                let before = record.clone();
                let mut after = decide(record)?;
                // What did not change keeps its time, so that the janitor sees no movement where there is none.
                if after != before {
                    (after.updated_at, after.observed_at) = (now.wall, now.observed);
                }
                Ok(after)
            })
            .inspect(|_| self.lookout.ring())
    }

    /// Queues an event: who tells it does not wait until it is stored.
    pub(crate) fn tell_soon(&self, event: Event) {
        self.event_writer.tell(event);
    }

    /// Writes events behind the queued ones, and returns when they are stored.
    pub(crate) fn tell_now(&self, events: &[Event]) {
        if !events.is_empty() {
            self.event_writer.tell_now(events);
        }
    }

    /// Waits until all queued events are stored. A process calls this before it ends: its other threads may keep the
    /// engine alive until then.
    pub fn finish_telling(&self) {
        self.event_writer.finish();
    }
}

/// Says that there is no such sandbox.
pub(crate) fn unknown(id: &SandboxId) -> Error {
    Error::new(Kind::NotFound, format!("there is no sandbox `{id}`"))
        .hint("list sandboxes to see those there are")
        .detail("sandbox_id", id.as_str())
}
