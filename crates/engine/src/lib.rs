//! The service behind every door. `ops` has a file for each operation; the other directories are what operations use,
//! one component each.
//!
//! Everything here blocks: the command line must not pay for a runtime, and a daemon calls it from threads of its
//! own. Nothing here knows HTTP, a terminal, an environment variable or a home directory.

mod access;
pub mod call;
pub mod catalogue;
pub mod crash;
pub mod egress;
mod events;
pub mod exec;
pub mod files;
mod forward;
pub mod guest;
pub mod inline;
mod lifecycle;
pub mod ops;
mod placement;
mod random;
mod spans;
pub mod text;
mod turns;
mod upkeep;

use std::fmt;
use std::sync::Arc;

use coracle_core::backend::Life;
use coracle_core::headroom::Disk;
use coracle_core::store::Durability;
use coracle_core::{
    Backend, Ceiling, Claim, Clock, Epoch, Error, Kind, Policy, Record, Result, RunId, SandboxId, Store,
    TenantId,
};

pub use self::access::claims::Claims;
use self::access::tenancy::Tenancy;
pub use self::access::{claims, naming};
pub use self::call::{Call, Notice, Observer};
pub use self::catalogue::Catalogue;
pub use self::crash::{CRASH_POINTS, CrashPoints};
pub use self::egress::Keepers;
use self::events::event_writer::EventWriter;
pub use self::events::watch::{self, Watch};
pub use self::exec::attach::{self, Attached};
pub use self::exec::control::{self, Control};
pub use self::exec::follow::{self, Batch, Follow};
pub use self::exec::logs::{self, Logs};
pub use self::exec::{Captured, ExecRequest, Secrets, Started, Stdin, Timeout, Watched, progress};
pub use self::files::{Depth, Entries, FileEntry, Links, NewFile};
pub use self::inline::Inline;
pub use self::lifecycle::one_command::{End, OneCommand, OutputTo, Ran};
use self::lifecycle::spares::Spares;
pub use self::lifecycle::spares::{RemoteSpares, SparePool};
pub use self::ops::Operation;
pub use self::placement::probes;
pub use self::placement::roster::{self, Roster};
pub use self::spans::Counted;
use self::upkeep::observed::Observed;
pub use self::upkeep::{glance, inventory, janitor, purge};

/// What an engine is made of.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub backends: Roster,
    pub clock: Arc<dyn Clock>,
    pub policy: Policy,
    /// The boot the machine is in; sandboxes of an earlier one are lost.
    pub boot: String,
    pub crash: CrashPoints,
    /// Who holds the network of sandboxes; without it none has any.
    pub keepers: Option<Keepers>,
    /// Where the output of closed sandboxes is kept; without it none is.
    pub logs: Option<Logs>,
    /// The disk of the home; without it nothing looks how full it is.
    pub disk: Option<Arc<dyn Disk>>,
    /// Who brought which images; without it no image counts for a tenant.
    pub claims: Option<Claims>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("backends", &self.backends)
            .field("boot", &self.boot)
            .finish_non_exhaustive()
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub claim: Claim,
    /// Whose sandboxes it sees; the home's own people have none, and see all.
    pub tenant: Option<TenantId>,
    /// The most it may have, where a person has said so; a person has none.
    pub ceiling: Option<Arc<Ceiling>>,
}

impl Caller {
    /// Returns somebody of the home's own people, who acts under the run's current lease.
    pub fn acting_as(run: RunId) -> Self {
        Self { claim: Claim { run, epoch: None }, tenant: None, ceiling: None }
    }

    /// Returns the same caller, insisting on an epoch or on none.
    pub fn under(&self, epoch: Option<Epoch>) -> Self {
        Self { claim: Claim { epoch, ..self.claim.clone() }, ..self.clone() }
    }

    /// Returns the caller as the owner of a sandbox it has just made: whatever it believes of others' epochs, and
    /// whatever it may enter by a name, this one is its own.
    pub fn of_its_own(&self) -> Self {
        Self { ceiling: None, ..self.under(None) }
    }

    /// Returns the same caller below a ceiling.
    pub fn below(self, ceiling: Ceiling) -> Self {
        let ceiling = (!egress::weak::off(egress::weak::Wall::Ceiling)).then(|| Arc::new(ceiling));
        Self { ceiling, ..self }
    }

    /// Tells whether it may know that this sandbox exists. The home's own people see those of every tenant; a model at a
    /// door they started does not.
    pub fn sees(&self, record: &Record) -> bool {
        (self.tenant.is_none() && self.ceiling.is_none()) || self.tenant == record.tenant
    }

    /// Refuses a sandbox that has more than the caller may have.
    fn check_reach(&self, record: &Record) -> Result<()> {
        self.ceiling.as_ref().map_or(Ok(()), |ceiling| ceiling.check_record(record))
    }
}

/// Carries out operations. Cheap to clone; all clones are the same engine, and differ at most in how much output their
/// answers carry.
#[derive(Debug, Clone)]
pub struct Engine {
    parts: Arc<Parts>,
    tenancy: Arc<Tenancy>,
    spares: Arc<Spares>,
    lookout: Arc<watch::Lookout>,
    event_writer: Arc<EventWriter>,
    inline: Inline,
    catalogue: Catalogue,
    /// What sandboxes end with that it makes.
    life: Life,
    observed: Arc<Observed>,
}

impl Engine {
    pub fn new(parts: Parts) -> Self {
        let tenancy = Arc::new(Tenancy::of(&parts.policy));
        let lookout = Arc::<watch::Lookout>::default();
        let event_writer = Arc::new(EventWriter::new(parts.store.clone(), lookout.clone()));
        Self {
            parts: Arc::new(parts),
            tenancy,
            spares: Arc::default(),
            lookout,
            event_writer,
            inline: Inline::default(),
            catalogue: Catalogue::own().clone(),
            life: Life::Own,
            observed: Arc::default(),
        }
    }

    /// Returns the same engine, whose answers carry this much output.
    pub fn answering(&self, inline: Inline) -> Self {
        Self { inline, ..self.clone() }
    }

    /// Returns the same engine, whose sandboxes end with this process, however that dies.
    pub fn tied_to_this_process(&self) -> Self {
        Self { life: Life::Maker, ..self.clone() }
    }

    /// Returns the operator's rules.
    pub fn policy(&self) -> &Policy {
        &self.parts.policy
    }

    /// Returns the backends that are looked for on every machine.
    pub fn backends(&self) -> &[Arc<dyn Backend>] {
        self.parts.backends.all()
    }

    fn store(&self) -> &dyn Store {
        &*self.parts.store
    }

    /// Tells whether records can be read.
    pub fn check_store(&self) -> Result<()> {
        let nobody: SandboxId = "sbx_0".parse()?;
        self.store().find(&nobody).map(drop)
    }

    fn crash_at(&self, point: &'static str) {
        self.parts.crash.at(point);
    }

    fn find(&self, id: &SandboxId) -> Result<Record> {
        self.store().find(id)?.ok_or_else(|| unknown(id))
    }

    /// Returns a record the caller may know of; of others it is told what it is told of ids that never were.
    fn find_for(&self, caller: &Caller, id: &SandboxId) -> Result<Record> {
        let record = self.find(id)?;
        if !caller.sees(&record) {
            return Err(unknown(id));
        }
        caller.check_reach(&record)?;
        spans::name(&record);
        Ok(record)
    }

    /// Tells whether a list shows a sandbox to a caller. Records of a list have no variables, and ceilings look at those.
    fn shows(&self, caller: &Caller, listed: &Record) -> bool {
        match &caller.ceiling {
            None => caller.sees(listed),
            Some(_) => self.find_for(caller, &listed.id).is_ok(),
        }
    }

    /// Changes a record and stamps it with the time.
    fn change(
        &self,
        id: &SandboxId,
        durability: Durability,
        decide: &mut dyn FnMut(Record) -> Result<Record>,
    ) -> Result<Record> {
        let now = self.moment()?;
        self.event_writer.finish();
        self.store()
            .update(id, durability, &mut |record| {
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

    /// Records what happened to a sandbox, and why.
    fn note(&self, id: &SandboxId, event: coracle_core::lifecycle::Event, reason: &str) -> Result<()> {
        self.freeing(|| {
            let noted = self.change(id, Durability::Process, &mut |mut row| {
                row.state = row.state.step(event).map_err(|refused| refused.into_error(&row.id))?;
                row.reason = Some(reason.to_owned());
                Ok(row)
            });
            noted.map(drop)
        })
    }
}

fn unknown(id: &SandboxId) -> Error {
    Error::new(Kind::NotFound, format!("there is no sandbox `{id}`"))
        .hint("list sandboxes to see those there are")
        .detail("sandbox_id", id.as_str())
}
