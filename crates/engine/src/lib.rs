//! The service behind every door. `ops` has a file for each operation, which uses components; [`Engine`] puts those
//! together.
//!
//! From the bottom up: [`Records`], [`Placement`], `Holdings`, [`Repositories`], [`Headroom`], [`Access`], [`Egress`], [`Entry`], [`Execs`],
//! [`Lifecycle`], [`Packages`], [`Upkeep`]. Each holds those it uses, and none holds the engine.
//!
//! Everything here blocks: the command line must not pay for a runtime, and a daemon calls it from threads of its
//! own. Nothing here knows HTTP, a terminal, an environment variable or a home directory.

mod access;
mod ballast;
pub mod call;
mod caller;
pub mod catalogue;
pub mod crash;
pub mod egress;
mod entry;
pub mod exec;
pub mod files;
pub mod guest;
mod headroom;
mod holdings;
pub mod inline;
mod lifecycle;
pub mod ops;
mod packages;
mod placement;
mod porter;
mod random;
mod records;
mod repositories;
mod spans;
pub mod text;
mod upkeep;

use std::fmt;
use std::sync::Arc;

use coracle_core::headroom::Disk;
use coracle_core::install::PackageCache;
use coracle_core::{Clock, KeptLogs, Policy, Repos, Store};

pub use self::access::Access;
use self::ballast::Ballast;
pub use self::call::{Call, Notice, Observer};
pub use self::caller::Caller;
pub use self::catalogue::Catalogue;
pub use self::crash::{CRASH_POINTS, CrashPoints, INSTALL_CRASH_POINTS, SLEEP_CRASH_POINTS};
pub use self::egress::{Egress, Keepers};
pub use self::entry::Entry;
use self::entry::EntryParts;
use self::exec::ExecParts;
pub use self::exec::attach::{self, Attached};
pub use self::exec::control::{self, Control};
pub use self::exec::follow::{self, Batch, Follow};
pub use self::exec::naming;
pub use self::exec::{Captured, ExecRequest, Execs, Secrets, Started, Stdin, Timeout, Watched, progress};
pub use self::files::{Depth, Entries, FileEntry, Links, NewFile};
pub use self::headroom::Headroom;
use self::holdings::Holdings;
pub use self::holdings::claims::{self, Claims};
pub use self::inline::Inline;
pub use self::lifecycle::Lifecycle;
use self::lifecycle::LifecycleParts;
pub use self::lifecycle::one_command::{End, OneCommand, OutputTo, Ran};
pub use self::lifecycle::spares::{RemoteSpares, SparePool};
pub use self::ops::Operation;
use self::packages::PackageParts;
pub use self::packages::Packages;
pub use self::placement::roster::{self, Roster};
pub use self::placement::{Placement, probes};
use self::records::RecordParts;
pub use self::records::Records;
pub use self::records::watch::{self, Watch};
pub use self::repositories::Repositories;
pub use self::spans::Counted;
use self::upkeep::UpkeepParts;
pub use self::upkeep::{Upkeep, glance, inventory, janitor, purge};

/// What an engine is made of.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub backends: Roster,
    pub clock: Arc<dyn Clock>,
    pub policy: Policy,
    /// The boot the machine is in; sandboxes of an earlier one are lost.
    pub boot: String,
    pub crash: CrashPoints,
    /// How keepers are started; without it no sandbox has a network.
    pub keepers: Option<Keepers>,
    /// Where the output of closed sandboxes is kept; without it none is.
    pub logs: Option<Arc<dyn KeptLogs>>,
    /// Where fetched packages are kept; without it no dependencies are installed.
    pub packages: Option<Arc<dyn PackageCache>>,
    /// The disk of the home; without it nothing looks how full it is.
    pub disk: Option<Arc<dyn Disk>>,
    /// Notes which tenant brought which image; without it no image counts for a tenant.
    pub claims: Option<Claims>,
    /// Where hosted repositories are.
    pub repos: Arc<dyn Repos>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("backends", &self.backends)
            .field("boot", &self.boot)
            .finish_non_exhaustive()
    }
}

/// Carries out operations, and leads to the components they use. Cheap to clone: clones share all components, and differ
/// at most in how much output their answers carry.
#[derive(Debug, Clone)]
pub struct Engine {
    policy: Arc<Policy>,
    records: Arc<Records>,
    placement: Arc<Placement>,
    headroom: Arc<Headroom>,
    holdings: Arc<Holdings>,
    repositories: Arc<Repositories>,
    access: Arc<Access>,
    egress: Arc<Egress>,
    entry: Arc<Entry>,
    execs: Execs,
    lifecycle: Lifecycle,
    packages: Packages,
    upkeep: Arc<Upkeep>,
    inline: Inline,
    catalogue: Catalogue,
}

impl Engine {
    pub fn new(parts: Parts) -> Self {
        let Parts {
            store,
            backends,
            clock,
            policy,
            boot,
            crash,
            keepers,
            logs,
            packages,
            disk,
            claims,
            repos,
        } = parts;
        let ballast = Ballast::on(disk);
        let records = RecordParts { store, clock, boot, crash, ballast: ballast.clone() };
        let records = Arc::new(Records::new(records));
        let placement = Arc::new(Placement::new(backends, policy.backends.clone()));
        let headroom = Headroom::new(ballast, policy.reserve, records.clone(), placement.clone());
        let holdings = Arc::new(Holdings::new(policy.tenants.clone(), claims, logs.clone()));
        let repositories = Arc::new(Repositories::new(repos, records.clone()));
        let (headroom, policy) = (Arc::new(headroom), Arc::new(policy));
        let access = Access::new(records.clone(), placement.clone(), headroom.clone(), policy.clone());
        let access = Arc::new(access);
        let egress = Egress::new(records.clone(), access.clone(), keepers, policy.network.caps);
        let egress = Arc::new(egress);
        let entry = Arc::new(Entry::new(EntryParts {
            records: records.clone(),
            placement: placement.clone(),
            holdings: holdings.clone(),
            headroom: headroom.clone(),
            access: access.clone(),
            egress: egress.clone(),
        }));
        let execs = Execs::new(ExecParts {
            records: records.clone(),
            headroom: headroom.clone(),
            access: access.clone(),
            entry: entry.clone(),
            egress: egress.clone(),
            policy: policy.clone(),
            logs,
        });
        let lifecycle = Lifecycle::new(LifecycleParts {
            records: records.clone(),
            placement: placement.clone(),
            headroom: headroom.clone(),
            holdings: holdings.clone(),
            access: access.clone(),
            egress: egress.clone(),
            entry: entry.clone(),
            execs: execs.clone(),
            repositories: repositories.clone(),
            repos: Arc::new(policy.repos.clone()),
        });
        let packages = Packages::new(PackageParts {
            records: records.clone(),
            headroom: headroom.clone(),
            entry: entry.clone(),
            execs: execs.clone(),
            lifecycle: lifecycle.clone(),
            policy: policy.clone(),
            cache: packages,
        });
        let upkeep = Upkeep::new(UpkeepParts {
            records: records.clone(),
            placement: placement.clone(),
            repositories: repositories.clone(),
            headroom: headroom.clone(),
            egress: egress.clone(),
            entry: entry.clone(),
            execs: execs.clone(),
            lifecycle: lifecycle.clone(),
            packages: packages.clone(),
            keep: policy.hibernate_keep,
        });
        Self {
            policy,
            records,
            placement,
            headroom,
            holdings,
            repositories,
            access,
            egress,
            entry,
            execs,
            lifecycle,
            packages,
            upkeep: Arc::new(upkeep),
            inline: Inline::default(),
            catalogue: Catalogue::own().clone(),
        }
    }

    /// Returns the same engine, whose answers carry this much output.
    pub fn answering(&self, inline: Inline) -> Self {
        let (execs, lifecycle) =
            (self.execs.answering(inline.clone()), self.lifecycle.answering(inline.clone()));
        Self { execs, lifecycle, inline, ..self.clone() }
    }

    /// Returns the records of the home, their events and their time.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Returns the operator's rules.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the backends, and what chooses among them.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Returns what looks after the disk of the home.
    pub fn headroom(&self) -> &Headroom {
        &self.headroom
    }

    /// Returns the way into sandboxes.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Returns what tenants keep beside their sandboxes.
    pub(crate) fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// Returns hosted repositories.
    pub fn repositories(&self) -> &Repositories {
        &self.repositories
    }

    /// Returns what decides who may do what.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Returns the networks of sandboxes.
    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Returns what runs commands.
    pub fn execs(&self) -> &Execs {
        &self.execs
    }

    /// Returns what makes and ends sandboxes.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Returns what installs the dependencies of repositories.
    pub fn packages(&self) -> &Packages {
        &self.packages
    }

    /// Returns what keeps the home in order.
    pub fn upkeep(&self) -> &Upkeep {
        &self.upkeep
    }
}
