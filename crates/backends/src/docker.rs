//! Sandboxes in containers of a container engine that speaks Docker's API: Docker, Podman, or either on another
//! machine.
//!
//! The container engine makes root, namespaces and cgroup; PID 1 is our guest, from a volume made once per
//! container engine. The boot plan goes over the container's standard input, so that the container engine never
//! stores the secret in it. After that we reach the guest through a socket in the home, if the container engine
//! shares our files, or else through a program it starts.

mod build;
mod client;
mod connect;
mod container;
mod create;
mod destroy;
pub mod endpoint;
mod failure;
mod flavour;
mod hibernate;
pub(crate) mod home;
mod image;
mod images;
mod install;
mod installing;
mod lookup;
mod patience;
mod probe;
mod purge;
mod secure;
mod settled;
mod silence;
mod start;
mod survey;
pub mod tunnel;
mod usage;
mod volumes;

use std::fmt;
use std::os::unix::net::UnixStream;

use coracle_core::backend::{Created, Found, GuestEnd, Order, Placement, Probe, Silence};
use coracle_core::hibernation::Hibernation;
use coracle_core::image::{Builder, Images, Progress};
use coracle_core::usage::Usage;
use coracle_core::volume::Volumes;
use coracle_core::{Backend, Error, Kind, Result, SandboxId, Spec, fit};

use crate::{BackendConfig, mark};
use client::Client;
use endpoint::Endpoint;
use home::Directories;

/// The points in making and removing a container at which tests crash the process.
pub const CRASH_POINTS: &[&str] = &[
    "docker.install.image",
    "docker.install.container",
    "docker.create.room",
    "docker.create.container",
    "docker.create.attached",
    "docker.create.started",
    "docker.create.ready",
    "docker.destroy.container",
    "docker.destroy.room",
];

/// The points in falling asleep and waking.
pub const SLEEP_CRASH_POINTS: &[&str] = &[
    "docker.rest.ended",
    "docker.rest.noted",
    "docker.wake.attached",
    "docker.wake.started",
    "docker.wake.ready",
];

/// The labels of our containers. An image can carry any label, too, so we believe them only together with the name.
const INSTANCE_LABEL: &str = "coracle.instance";
const SANDBOX_LABEL: &str = "coracle.sandbox";

/// The containers of one container engine.
pub struct Docker {
    name: String,
    config: BackendConfig,
    home: Directories,
    client: Client,
}

impl Docker {
    /// `endpoint` may be an error, which every call that needs the container engine returns.
    pub fn new(config: BackendConfig, name: impl Into<String>, endpoint: Result<Endpoint>) -> Self {
        let name = name.into();
        let home = Directories::new(&config.home, &name);
        let client = Client::new(endpoint, &config);
        Self { name, config, home, client }
    }

    fn crash(&self, point: &'static str) {
        (self.config.crash)(point);
    }

    /// Refuses a sandbox that is on another container engine than the one this backend now means: the wrong one
    /// would say that it is gone.
    fn expect_here(&self, sandbox: &SandboxId) -> Result<()> {
        let here = self.client.shown();
        let unknown = |error| {
            let message = format!("could not read at which engine sandbox `{sandbox}` is");
            Error::new(Kind::NotAvailable, message).caused_by(error)
        };
        match self.home.engine_of(sandbox).map_err(unknown)? {
            Some(engine) if engine != here => Err(Error::new(
                Kind::NotAvailable,
                format!("sandbox `{sandbox}` is on the engine at {engine}, and `{}` is now the one at {here}", self.name),
            )
            .hint("set DOCKER_HOST (CONTAINER_HOST for podman) or the context as it was when the sandbox was opened")
            .detail("engine", engine)),
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses a sandbox that another instance has made: its container does not carry our mark.
    fn expect_ours(&self, sandbox: &SandboxId) -> Result<()> {
        mark::expect(&self.home.place(sandbox), sandbox, &self.config.instance)
    }

    fn unsupported(&self, what: &str) -> Error {
        Error::new(Kind::Unsupported, format!("backend `{}` cannot {what}", self.name))
            .hint("the native backend can")
            .detail("backend", self.name.as_str())
    }
}

impl fmt::Debug for Docker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Docker").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns the name of a sandbox's container.
fn container_name(sandbox: &SandboxId) -> String {
    format!("coracle-{sandbox}")
}

impl Backend for Docker {
    fn name(&self) -> &str {
        &self.name
    }

    fn probe(&self) -> Probe {
        probe::probe(self)
    }

    fn fit(&self, spec: &Spec) -> Result<()> {
        fit::check_probe(&self.name, &self.probe(), spec)?;
        image::name(self, spec).map(drop)
    }

    /// The container engine may be on another machine. If it is on this one, its containers are gone after a
    /// restart, and a survey shows that.
    fn ends_with_this_machine(&self) -> bool {
        false
    }

    fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<()> {
        image::prepare(self, spec, progress)
    }

    fn create(&self, order: &Order<'_>) -> Result<Created> {
        create::create(self, order)
    }

    fn connect(&self, sandbox: &SandboxId, placement: &Placement) -> Result<UnixStream> {
        connect::connect(self, sandbox, placement)
    }

    fn may_break(&self, placement: &Placement) -> bool {
        connect::is_carried(placement)
    }

    fn guest_end(&self, sandbox: &SandboxId) -> Option<GuestEnd> {
        self.expect_here(sandbox).ok().and_then(|()| survey::guest_end(self, sandbox))
    }

    fn usage(&self, sandbox: &SandboxId, placement: &Placement) -> Result<Usage> {
        usage::usage(self, sandbox, placement)
    }

    fn destroy(&self, sandbox: &SandboxId) -> Result<()> {
        destroy::destroy(self, sandbox)
    }

    fn forget(&self, sandbox: &SandboxId) -> Result<Vec<String>> {
        destroy::forget(self, sandbox)
    }

    /// A home that never used the container engine does not ask it.
    fn silence(&self) -> Option<&dyn Silence> {
        self.home.is_used().then_some(self as &dyn Silence)
    }

    fn images(&self) -> Option<&dyn Images> {
        Some(self)
    }

    fn builder(&self) -> Option<&dyn Builder> {
        Some(self)
    }

    fn hibernation(&self) -> Option<&dyn Hibernation> {
        Some(self)
    }

    fn volumes(&self) -> Option<&dyn Volumes> {
        Some(self)
    }

    fn purge(&self) -> Result<usize> {
        purge::purge(self)
    }

    fn survey(&self) -> Result<Vec<Found>> {
        survey::survey(self)
    }
}
