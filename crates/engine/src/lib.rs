//! The service behind every door: operations, sessions, the ownership gate, provisioning and the janitor.
//!
//! Everything here blocks: the command line must not pay for a runtime, and a daemon calls it from threads of its
//! own. Nothing here knows HTTP, a terminal, an environment variable or a home directory.

pub mod attach;
mod backends;
pub mod claims;
pub mod control;
pub mod crash;
pub mod egress;
pub mod exec;
mod expiry;
pub mod files;
pub mod follow;
mod forget;
mod fork;
mod forward;
mod gate;
pub mod glance;
pub mod guest;
mod handover;
mod headroom;
mod hold;
mod holdings;
pub mod inline;
pub mod inventory;
pub mod janitor;
mod leash;
pub mod logs;
pub mod naming;
mod observed;
pub mod ops;
pub mod probes;
pub mod progress;
mod provision;
pub mod purge;
mod random;
mod rejoin;
pub mod roster;
mod scribe;
mod sessions;
mod spans;
mod spares;
mod standstill;
mod teardown;
mod tenancy;
mod tether;
pub mod text;
mod trail;
mod turns;
mod volumes;
pub mod watch;

use std::fmt;
use std::sync::Arc;

use coracle_core::headroom::Disk;
use coracle_core::image::Progress;
use coracle_core::store::Durability;
use coracle_core::{
    Backend, Ceiling, Claim, Clock, Epoch, Error, Kind, Policy, Record, Result, RunId, SandboxId, Store,
    TenantId, lifecycle,
};

pub use self::attach::Attached;
pub use self::claims::Claims;
pub use self::control::Control;
pub use self::crash::{CRASH_POINTS, CrashPoints};
pub use self::egress::Keepers;
pub use self::exec::{Captured, ExecRequest, Secrets, Started, Stdin, Timeout};
pub use self::files::{Depth, Entries, FileEntry, Links, NewFile};
pub use self::follow::{Batch, Follow};
pub use self::inline::Inline;
pub use self::leash::Leash;
pub use self::logs::Logs;
pub use self::ops::Operation;
pub use self::roster::Roster;
pub use self::spares::Stocker;
pub use self::tether::Cutter;
pub use self::watch::Watch;

/// What an engine is made of.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub backends: Roster,
    pub clock: Arc<dyn Clock>,
    pub policy: Policy,
    /// The boot the machine is in; sandboxes of an earlier one are lost.
    pub boot: String,
    pub crash: CrashPoints,
    /// Who wants to know how far long work on images is.
    pub progress: Arc<dyn Progress>,
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
    tenancy: Arc<tenancy::Tenancy>,
    spares: Arc<spares::Spares>,
    lookout: Arc<watch::Lookout>,
    scribe: Arc<scribe::Scribe>,
    inline: Inline,
    observed: Arc<observed::Observed>,
}

impl Engine {
    pub fn new(parts: Parts) -> Self {
        let tenancy = Arc::new(tenancy::Tenancy::of(&parts.policy));
        let lookout = Arc::<watch::Lookout>::default();
        let scribe = Arc::new(scribe::Scribe::new(parts.store.clone(), lookout.clone()));
        Self {
            parts: Arc::new(parts),
            tenancy,
            spares: Arc::default(),
            lookout,
            scribe,
            inline: Inline::default(),
            observed: Arc::default(),
        }
    }

    /// Returns the same engine, whose answers carry this much output.
    pub fn answering(&self, inline: Inline) -> Self {
        Self { inline, ..self.clone() }
    }

    /// Returns the operator's rules.
    pub fn policy(&self) -> &Policy {
        &self.parts.policy
    }

    /// Returns the backends that are looked for on every machine.
    pub fn backends(&self) -> &[Arc<dyn Backend>] {
        self.parts.backends.all()
    }

    fn progress(&self) -> &dyn Progress {
        &*self.parts.progress
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
        self.scribe.finish();
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
    fn note(&self, id: &SandboxId, event: lifecycle::Event, reason: &str) -> Result<()> {
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
