//! The row a sandbox has in the store.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::{Placement, Profile};
use crate::clock::Timestamp;
use crate::ids::{SandboxId, SessionKey, TenantId, stored_key};
use crate::image;
use crate::install;
use crate::lease::{Epoch, Lease};
use crate::lifecycle::State;
use crate::network::Network;
use crate::observed::Moment;
use crate::repo::RepoPlace;
use crate::selection::Refusal;
use crate::spec::Spec;

/// Everything coracle knows about a sandbox from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub id: SandboxId,
    pub state: State,
    /// The tenant that owns it, where the machine is shared; other tenants do not see it. Absent for the home's own
    /// people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    #[serde(default, deserialize_with = "stored_key")]
    pub key: Option<SessionKey>,
    pub lease: Lease,
    pub spec: Spec,
    pub backend: String,
    /// Backends that were tried before that one, and why they refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal>,
    /// Where the backend finds it again; absent until it exists.
    pub placement: Option<Placement>,
    /// Which walls were seen to stand when it started.
    pub profile: Option<Profile>,
    /// What its image declares about itself.
    #[serde(default)]
    pub image: Option<image::Config>,
    /// The remaining network, where it was narrowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowed: Option<Network>,
    /// Execs started before this epoch must be killed before anyone is served: their owner has lost the sandbox,
    /// or they were to end with the change of owner. Stays until the guest has confirmed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_kill: Option<Epoch>,
    /// The sandbox whose files it started with.
    #[serde(default)]
    pub forked_from: Option<SandboxId>,
    /// The sandbox whose key it takes over, while it is being made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<SandboxId>,
    /// Where it works, if it works on a repository; absent until its branch has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoPlace>,
    /// How many guests it has had. Each wake starts a new one.
    #[serde(default = "first_life")]
    pub life: u32,
    /// Where its files are while it is hibernated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// What became of installing its dependencies, once that is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<install::Report>,
    pub secret: Secret,
    /// The boot of the machine it was made under; processes do not survive a reboot.
    pub boot: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The same in observed time, which decides when it is given up or forgotten; older versions did not write it.
    #[serde(default = "never")]
    pub observed_at: Timestamp,
    /// Since when it was idle, if that is why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Timestamp>,
    /// Why it is in its state, for people.
    pub reason: Option<String>,
}

fn first_life() -> u32 {
    1
}

fn never() -> Timestamp {
    Timestamp::from_millis(0)
}

impl Record {
    /// Returns the record of a sandbox of which only this is known. It has no owner, no backend and no secret yet.
    pub fn new(id: SandboxId, state: State, spec: Spec, at: Moment) -> Self {
        Self {
            id,
            state,
            tenant: None,
            key: None,
            lease: Lease::unowned(),
            spec,
            backend: String::new(),
            refused: Vec::new(),
            placement: None,
            profile: None,
            image: None,
            narrowed: None,
            pending_kill: None,
            forked_from: None,
            replaces: None,
            repo: None,
            life: first_life(),
            kept: None,
            install: None,
            secret: Secret::UNKNOWN,
            boot: String::new(),
            created_at: at.wall,
            updated_at: at.wall,
            observed_at: at.observed,
            idle_since: None,
            reason: None,
        }
    }

    /// Returns when it changed last.
    pub fn moment(&self) -> Moment {
        Moment { wall: self.updated_at, observed: self.observed_at }
    }

    /// Returns the directory commands start in.
    pub fn workdir(&self) -> &str {
        let of_image = self.image.as_ref().and_then(|image| image.workdir.as_deref());
        self.spec.workdir(of_image)
    }

    /// Returns the user that commands run as by default, as the caller or the image named it; root if absent.
    pub fn user(&self) -> Option<&str> {
        self.spec.user(self.image.as_ref())
    }

    /// Tells whether it was made ahead and no caller has taken it, or ever did; callers then see none of its events.
    /// A sandbox found without a record has no secret, and all callers see it.
    pub fn is_untaken(&self) -> bool {
        self.lease.owner().is_none() && self.lease.epoch() == Epoch::FIRST && self.secret != Secret::UNKNOWN
    }

    /// Returns the network it may reach now.
    pub fn network(&self) -> &Network {
        self.narrowed.as_ref().unwrap_or(&self.spec.network)
    }
}

/// The files of a hibernated sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub at: KeptAt,
    /// How much of the disk they take, if the backend knows.
    pub bytes: Option<u64>,
    /// When the sandbox fell asleep. `hibernate.keep` counts from here, in observed time.
    pub since: Moment,
    /// Its guest ended by itself, and has left what it knew of its execs to the next.
    #[serde(default)]
    pub orderly: bool,
    /// When it ends, as the event `expiring` told; absent until that was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_soon: Option<Timestamp>,
}

impl Kept {
    /// Returns when a sandbox ends that no caller uses, at the earliest: time in which the machine was off does not count.
    pub fn expires_at(&self, keep: Duration) -> Timestamp {
        self.since.wall.after(keep)
    }
}

/// Where files are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeptAt {
    /// Where they were: on the sandbox's disk or in its directory.
    Place,
}

/// The proof that a caller of the guest is the host. Never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub [u8; 32]);

impl Secret {
    /// Stands in the record of a sandbox that was found without one: coracle cannot talk to its guest.
    pub const UNKNOWN: Self = Self([0; 32]);
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}
