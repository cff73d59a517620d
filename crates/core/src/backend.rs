//! The port to what makes sandboxes. A backend starts a container with the guest in it, hands back a byte stream to
//! the guest, and destroys it; everything else is spoken over the stream.

use std::os::unix::net::UnixStream;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::{Error, Kind, Result};
use crate::fit;
use crate::forking::Forking;
use crate::ids::{InstanceId, SandboxId};
use crate::image::{self, Builder, Images, Progress};
use crate::lease::Epoch;
use crate::record::Secret;
use crate::spec::Spec;
use crate::usage::Usage;
use crate::volume::Volumes;

/// What a backend needs to find a sandbox again. Only the backend that made it reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Placement(pub serde_json::Value);

/// One sandbox to make.
#[derive(Debug)]
pub struct Order<'a> {
    pub sandbox: &'a SandboxId,
    pub instance: &'a InstanceId,
    pub spec: &'a Spec,
    pub secret: &'a Secret,
    pub epoch: Epoch,
    /// The sandbox it takes the place of, which is closed next.
    pub replaces: Option<&'a SandboxId>,
    pub life: Life,
}

/// What a sandbox ends with, beside what it is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Life {
    /// Nothing: it outlives the process that made it.
    #[default]
    Own,
    /// The process that makes it, however that dies. A backend that cannot tell lets it live on until it is idle.
    Maker,
}

/// A sandbox that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Created {
    pub placement: Placement,
    pub profile: Profile,
    /// What the image says of itself; its `workdir` is there already.
    pub image: image::Config,
}

/// What holds, and what does not and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    pub walls: Vec<Wall>,
}

/// One defence or limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wall {
    pub name: String,
    pub enforced: bool,
    /// By what it is enforced, or why it is not.
    pub how: String,
    /// What would make it enforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Whether a backend can be used here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    pub available: bool,
    /// Why not, where it is not.
    pub reason: Option<String>,
    /// What it runs on, as in `Docker 27.3.1 (API 1.47)`; nothing where it is part of coracle.
    #[serde(default)]
    pub version: Option<String>,
    /// Where that listens; nothing where it is part of coracle.
    #[serde(default)]
    pub endpoint: Option<String>,
    pub profile: Profile,
}

/// Something of ours that a survey found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub sandbox: SandboxId,
    /// Its guest is running. Without it only leftovers are there.
    pub alive: bool,
    /// How its guest has ended, where it did so by itself and left word of it.
    pub end: Option<GuestEnd>,
    /// What is there, for people: `cgroup`, `directory`, `process`.
    pub objects: Vec<String>,
}

/// How a guest has ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestEnd {
    /// It was idle for as long as it may be, and ended then.
    Idle { ended: Timestamp },
    /// The client it was tied to is gone.
    Untied,
}

/// What all processes of a home know of an engine that does not answer.
pub trait Silence: Send + Sync {
    /// Tells whether it did not answer lately, so that there is no point in asking again just now.
    fn is_noted(&self) -> bool;

    /// Notes that it did not. Each note in a row is good for longer than the one before; an answer ends that.
    fn note(&self);
}

/// Makes, reaches and destroys sandboxes of one kind.
pub trait Backend: Send + Sync {
    /// Returns the name users choose it by.
    fn name(&self) -> &str;

    /// Tells whether it can be used here and what it would enforce. Makes nothing, and answers within seconds whatever
    /// it waits for.
    fn probe(&self) -> Probe;

    /// Refuses a spec it could not make a sandbox of now: `not_available`, or `unsupported` with the `misfits` in the
    /// details. Asked where there is another one to fall back to; costs little and makes nothing.
    fn fit(&self, spec: &Spec) -> Result<()> {
        fit::check_probe(self.name(), &self.probe(), spec)
    }

    /// Tells whether its sandboxes end when the machine coracle runs on is restarted. Of those that are somewhere else
    /// the survey alone says whether they live.
    fn ends_with_this_machine(&self) -> bool {
        true
    }

    /// Brings what the spec needs beforehand, such as its image. May take long; calling it twice costs little.
    fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<()>;

    /// Starts a sandbox whose guest answers when this returns.
    ///
    /// A row in state `creating` exists already. On error nothing of it is left, as far as that could be done;
    /// `destroy` finishes what could not. A limit in `spec.limits.required` that cannot be enforced and is not in
    /// `allow_missing` is refused before anything is made, and so is a wall in `spec.require` that would not stand.
    fn create(&self, order: &Order<'_>) -> Result<Created>;

    /// Opens a new stream to the guest. Fails with `not_found` only where it is proved that the guest is gone: the
    /// sandbox is called lost then. A lack of descriptors, memory, rights or time is any other kind.
    fn connect(&self, sandbox: &SandboxId, placement: &Placement) -> Result<UnixStream>;

    /// Tells whether a stream to the guest can end although both ends live, as one that an engine carries.
    fn may_break(&self, _placement: &Placement) -> bool {
        false
    }

    /// Returns how a guest has ended that is proved to be gone; nothing where it did not end by itself, or nobody can say.
    /// Commands cannot make it say anything.
    fn guest_end(&self, _sandbox: &SandboxId) -> Option<GuestEnd> {
        None
    }

    /// Returns what a sandbox uses now. What cannot be told is absent; nothing is changed and nobody in it notices.
    fn usage(&self, _sandbox: &SandboxId, _placement: &Placement) -> Result<Usage> {
        Ok(Usage::default())
    }

    /// Removes every trace. Succeeds if there is none; works without a placement, from any half-made state.
    fn destroy(&self, sandbox: &SandboxId) -> Result<()>;

    /// Gives up on a sandbox that cannot be destroyed because nobody answers where it is: removes what of it is in the
    /// home, and returns what is left elsewhere, for people. Asks nobody. `unsupported` where all of a sandbox is on
    /// this machine.
    fn forget(&self, sandbox: &SandboxId) -> Result<Vec<String>> {
        Err(Error::new(
            Kind::Unsupported,
            format!("could not give up on `{sandbox}`: all of it is on this machine"),
        )
        .hint("`coracle gc` tries again to remove it"))
    }

    /// Returns what is known of the engine it has to ask; nothing where it asks nobody.
    fn silence(&self) -> Option<&dyn Silence> {
        None
    }

    /// Returns where it keeps images; nothing if it has none but its own.
    fn images(&self) -> Option<&dyn Images>;

    /// Returns what builds images into [`Backend::images`]; nothing if it cannot by itself.
    fn builder(&self) -> Option<&dyn Builder> {
        None
    }

    /// Returns what forks and snapshots its sandboxes; nothing if it cannot.
    fn forking(&self) -> Option<&dyn Forking> {
        None
    }

    /// Returns where it keeps volumes; nothing if it cannot.
    fn volumes(&self) -> Option<&dyn Volumes>;

    /// Removes what it keeps for this instance beside sandboxes, of which there are none any more, and outside the home:
    /// volumes, what it has installed, connections. Succeeds if there is nothing; returns how many volumes there were.
    fn purge(&self) -> Result<usize> {
        Ok(0)
    }

    /// Is told that the disk of the home is nearly full, often while it is, and once that it is so no more. What is written
    /// in a sandbox and synced has to be there, or the sync has to fail, also where the disk has no room for it.
    fn brace(&self, _low: bool) {}

    /// Lists every sandbox of this instance that has left anything on the machine, and nothing of others.
    ///
    /// What is missing here, or not `alive`, is destroyed. So it fails as a whole where it cannot see, or cannot tell
    /// whether a guest is alive: only proof of death counts.
    fn survey(&self) -> Result<Vec<Found>>;

    /// Lists what is made of this home's files outside it and can belong to none of its sandboxes, for people. Waits a
    /// little for what the machine is about to let go of.
    fn remains(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}
