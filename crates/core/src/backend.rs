//! The port to backends. A backend starts a container with the guest in it, returns a byte stream to the guest, and
//! destroys the container; everything else goes over the stream.

use std::os::unix::net::UnixStream;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::{Error, Kind, Result};
use crate::fit;
use crate::forking::Forking;
use crate::hibernation::Hibernation;
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
    /// The sandbox that this one replaces; the caller closes it next.
    pub replaces: Option<&'a SandboxId>,
    pub ends_with: EndsWith,
}

/// What ends a sandbox besides an explicit order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EndsWith {
    /// It outlives the process that made it.
    #[default]
    Nothing,
    /// The process that makes it, however that process dies. A backend that cannot notice this lets the sandbox live
    /// until it is idle.
    Maker,
}

/// A sandbox that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Created {
    pub placement: Placement,
    pub profile: Profile,
    /// What the image declares about itself; its `workdir` is filled in already.
    pub image: image::Config,
}

/// Which walls stand, and which do not and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    pub walls: Vec<Wall>,
}

/// One defence or limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wall {
    pub name: String,
    pub enforced: bool,
    /// What enforces it, or why nothing does.
    pub how: String,
    /// What the operator can do to have it enforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Whether a backend can be used here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    pub available: bool,
    /// Why the backend cannot be used; absent if it can.
    pub reason: Option<String>,
    /// The container engine and its version, as in `Docker 27.3.1 (API 1.47)`; absent where the backend is part of
    /// coracle.
    #[serde(default)]
    pub version: Option<String>,
    /// Where the container engine listens; absent where the backend is part of coracle.
    #[serde(default)]
    pub endpoint: Option<String>,
    pub profile: Profile,
}

/// Something of ours that a survey found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub sandbox: SandboxId,
    /// Its guest is running. If `false`, only leftovers exist.
    pub alive: bool,
    /// It cannot be looked at from here: it is at another container engine than the one asked, or of another instance.
    pub elsewhere: bool,
    /// How its guest ended, where it ended by itself and recorded why.
    pub end: Option<GuestEnd>,
    /// The files a hibernated sandbox wakes with are there, all of them.
    pub files: bool,
    /// The objects found, for people: `cgroup`, `directory`, `process`.
    pub objects: Vec<String>,
}

/// How a guest ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestEnd {
    /// It reached its idle limit.
    Idle { ended: Timestamp },
    /// The same, and all its files were on the disk before it said so.
    Asleep { ended: Timestamp },
    /// The client it was tied to is gone.
    Untied,
}

/// What all processes of a home know about a container engine that does not answer.
pub trait Silence: Send + Sync {
    /// Tells whether the container engine failed to answer lately, so that asking again now is useless.
    fn is_noted(&self) -> bool;

    /// Notes that the container engine did not answer. Each note in a row lasts longer than the one before; an answer
    /// resets that.
    fn note(&self);
}

/// Makes, reaches and destroys sandboxes of one kind.
pub trait Backend: Send + Sync {
    /// Returns the name users choose it by.
    fn name(&self) -> &str;

    /// Tells whether the backend works on this machine and which walls it would enforce. Makes nothing, and answers
    /// within seconds whatever it waits for.
    fn probe(&self) -> Probe;

    /// Refuses a spec that the backend could not make a sandbox of now: `not_available`, or `unsupported` with the
    /// `misfits` in the details. Called where there is another backend to fall back to; cheap, and makes nothing.
    fn fit(&self, spec: &Spec) -> Result<()> {
        fit::check_probe(self.name(), &self.probe(), spec)
    }

    /// Tells whether a restart of coracle's machine ends the backend's sandboxes. For sandboxes on another machine,
    /// only the survey tells whether they live.
    fn ends_with_this_machine(&self) -> bool {
        true
    }

    /// Fetches what the spec needs, such as its image. May take long; a second call is cheap.
    fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<()>;

    /// Starts a sandbox whose guest answers when this returns.
    ///
    /// A row in state `creating` exists already. On error the backend removes what it made, as far as it can;
    /// `destroy` removes the rest. Before it makes anything, the backend refuses a limit in `spec.limits.required`
    /// that it cannot enforce and that is not in `allow_missing`, and a wall in `spec.require` that would not stand.
    fn create(&self, order: &Order<'_>) -> Result<Created>;

    /// Opens a new stream to the guest. Fails with `not_found` only where the guest is proved to be gone, because the
    /// engine then calls the sandbox lost. A lack of descriptors, memory, rights or time is any other kind.
    fn connect(&self, sandbox: &SandboxId, placement: &Placement) -> Result<UnixStream>;

    /// Tells whether a stream to the guest can break although both ends live, as one that a container engine carries.
    fn may_break(&self, _placement: &Placement) -> bool {
        false
    }

    /// Returns how a guest that is proved to be gone has ended; `None` where it did not end by itself, or the reason
    /// is unknown. Commands in the sandbox cannot forge it.
    fn guest_end(&self, _sandbox: &SandboxId) -> Option<GuestEnd> {
        None
    }

    /// Returns what a sandbox uses now. Values the backend cannot measure are absent. Changes nothing, and processes
    /// in the sandbox do not notice.
    fn usage(&self, _sandbox: &SandboxId, _placement: &Placement) -> Result<Usage> {
        Ok(Usage::default())
    }

    /// Removes every trace of a sandbox. Succeeds if there is none; works without a placement, from any half-made
    /// state.
    fn destroy(&self, sandbox: &SandboxId) -> Result<()>;

    /// Gives up on a sandbox that cannot be destroyed because its container engine does not answer: removes what the
    /// home has of it, and returns what is left elsewhere, for people. Contacts no container engine. `unsupported`
    /// where all of a sandbox is on this machine.
    fn forget(&self, sandbox: &SandboxId) -> Result<Vec<String>> {
        Err(Error::new(
            Kind::Unsupported,
            format!("could not give up on `{sandbox}`: all of it is on this machine"),
        )
        .hint("`coracle gc` tries again to remove it"))
    }

    /// Returns the note on the container engine it depends on; `None` where it depends on none.
    fn silence(&self) -> Option<&dyn Silence> {
        None
    }

    /// Returns where it keeps images; `None` if it has only the `host` image.
    fn images(&self) -> Option<&dyn Images>;

    /// Returns what builds images into [`Backend::images`]; `None` if it cannot build.
    fn builder(&self) -> Option<&dyn Builder> {
        None
    }

    /// Refuses to pause a sandbox where commands cannot be frozen: `unsupported`.
    fn check_pausing(&self) -> Result<()> {
        let name = self.name();
        Err(Error::new(Kind::Unsupported, format!("backend `{name}` cannot pause a sandbox"))
            .hint("the native backend can")
            .detail("backend", name))
    }

    /// Returns what forks and snapshots its sandboxes; `None` if it cannot.
    fn forking(&self) -> Option<&dyn Forking> {
        None
    }

    /// Returns what keeps the files of sandboxes without a guest and wakes them again; nothing if it cannot.
    fn hibernation(&self) -> Option<&dyn Hibernation> {
        None
    }

    /// Returns where it keeps volumes; `None` if it cannot.
    fn volumes(&self) -> Option<&dyn Volumes>;

    /// Removes what it keeps for this instance outside the home, besides sandboxes, of which none are left: volumes,
    /// what it has installed, connections. Succeeds if there is nothing; returns how many volumes there were.
    fn purge(&self) -> Result<usize> {
        Ok(0)
    }

    /// Prepares for a disk of the home that is nearly full. The engine calls it often while that lasts, and once with
    /// `false` when it is over. Where the disk has no room, a sync in a sandbox must still either keep the data or
    /// fail.
    fn brace(&self, _low: bool) {}

    /// Lists every sandbox of this instance that has left anything on the machine, and nothing of others.
    ///
    /// The engine destroys what is missing here or not `alive`. So the survey fails as a whole where it cannot see,
    /// or cannot tell whether a guest is alive: only proof of death counts.
    fn survey(&self) -> Result<Vec<Found>>;

    /// Lists objects outside the home that use its files and belong to none of its sandboxes, for people. Waits a
    /// little for objects that the kernel is about to release.
    fn remains(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}
