//! The row a sandbox has in the store.

use serde::{Deserialize, Serialize};

use crate::backend::{Placement, Profile};
use crate::clock::Timestamp;
use crate::ids::{SandboxId, SessionKey, TenantId, stored_key};
use crate::image;
use crate::lease::{Epoch, Lease};
use crate::lifecycle::State;
use crate::network::Network;
use crate::observed::Moment;
use crate::selection::Refusal;
use crate::spec::Spec;

/// Everything known of a sandbox from outside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub id: SandboxId,
    pub state: State,
    /// Whose it is, where the machine is shared; nobody else sees it. Absent for the home's own people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    #[serde(default, deserialize_with = "stored_key")]
    pub key: Option<SessionKey>,
    pub lease: Lease,
    pub spec: Spec,
    pub backend: String,
    /// Backends that were to be used before that one, and why they were not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal>,
    /// Where the backend finds it again; absent until it is there.
    pub placement: Option<Placement>,
    /// What was observed to be enforced when it started.
    pub profile: Option<Profile>,
    /// What the image it was made from says of itself.
    #[serde(default)]
    pub image: Option<image::Config>,
    /// What is left of the network it was made with, where that was narrowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowed: Option<Network>,
    /// What was started before this epoch is to be killed before anyone is served again: its owner had no right to it any
    /// more, or it was to end with the change of owner. Stays until the guest has confirmed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_kill: Option<Epoch>,
    /// The sandbox whose files it started with.
    #[serde(default)]
    pub forked_from: Option<SandboxId>,
    /// The sandbox whose key it shall have, while it is being made for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<SandboxId>,
    pub secret: Secret,
    /// The boot of the machine it was made under; processes do not outlive that.
    pub boot: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The same in observed time, by which it is given up or forgotten; older coracles did not write it.
    #[serde(default = "never")]
    pub observed_at: Timestamp,
    /// Since when it was idle, where it has ended because of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Timestamp>,
    /// Why it is in the state it is in, for people.
    pub reason: Option<String>,
}

fn never() -> Timestamp {
    Timestamp::from_millis(0)
}

impl Record {
    /// Returns when it changed last.
    pub fn moment(&self) -> Moment {
        Moment { wall: self.updated_at, observed: self.observed_at }
    }

    /// Returns where commands start.
    pub fn workdir(&self) -> &str {
        let of_image = self.image.as_ref().and_then(|image| image.workdir.as_deref());
        self.spec.workdir(of_image)
    }

    /// Returns the user commands run as unless they say otherwise, as the caller or the image said it; root if absent.
    pub fn user(&self) -> Option<&str> {
        self.spec.user(self.image.as_ref())
    }

    /// Tells whether it was made ahead and nobody has taken it yet, or ever did. Whatever happens to it is nobody's
    /// business. What was found without a record has no secret, and is everybody's.
    pub fn is_untaken(&self) -> bool {
        self.lease.owner().is_none() && self.lease.epoch() == Epoch::FIRST && self.secret != Secret::UNKNOWN
    }

    /// Returns what it may reach now.
    pub fn network(&self) -> &Network {
        self.narrowed.as_ref().unwrap_or(&self.spec.network)
    }
}

/// The proof that a caller of the guest is the host. Never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub [u8; 32]);

impl Secret {
    /// Stands in the record of a sandbox that was found, and whose guest nobody can talk to.
    pub const UNKNOWN: Self = Self([0; 32]);
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}
