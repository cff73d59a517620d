//! The native backend: Linux namespaces, cgroups and an overlay, which we make ourselves.
//!
//! A sandbox is a process tree whose PID 1 is the guest, a directory in the home, and a cgroup. It has no mount, no
//! network device and no other process outside: when the last process ends, the kernel removes the rest.

mod build;
mod cage;
mod create;
mod destroy;
mod disk;
mod elsewhere;
mod fork_source;
mod hibernate;
mod home;
mod ids;
mod image;
mod privilege;
mod probe;
mod requests;
mod snapshot;
mod storage;
mod survey;
mod usage;
mod volumes;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use coracle_core::backend::{Created, Found, GuestEnd, Order, Placement, Probe};
use coracle_core::forking::{ForkSource, Forking, HeldSandbox};
use coracle_core::hibernation::Hibernation;
use coracle_core::image::{Builder, Images, Progress, Stored};
use coracle_core::usage::Usage;
use coracle_core::volume::Volumes;
use coracle_core::{Backend, Error, ImageId, Kind, Result, SandboxId, Spec};
use coracle_images::Store;
use coracle_sys::cgroup::{Group, Layout};

use crate::{BackendConfig, place, weak};
use cage::{Cage, First};
use home::Directories;
use privilege::Privilege;

/// The points in making and removing a sandbox at which tests crash the process.
pub const CRASH_POINTS: &[&str] = &[
    "native.create.directories",
    "native.create.cgroup",
    "native.create.launched",
    "native.create.mapped",
    "native.create.ready",
    "native.fork.entered",
    "native.fork.layered",
    "native.fork.copied",
    "native.fork.linked",
    "native.snapshot.copied",
    "native.snapshot.kept",
    "native.destroy.killed",
    "native.destroy.cgroup",
    "native.destroy.directories",
];

/// The moments of falling asleep at which a crash is tested.
pub const SLEEP_CRASH_POINTS: &[&str] = &["native.rest.killed", "native.rest.synced"];

/// Sandboxes on this machine that need nothing installed.
#[derive(Debug)]
pub struct Native {
    config: BackendConfig,
    home: Directories,
    images: Store,
    privilege: Privilege,
    layout: OnceLock<Layout>,
    /// Whether `buildah` is installed.
    buildah: OnceLock<bool>,
    /// Guests this process started and therefore has to reap.
    children: Mutex<HashMap<SandboxId, Child>>,
}

/// The first process of a sandbox that this process has made.
#[derive(Debug)]
struct Child {
    guest: OwnedFd,
    /// Our end of its boot socket, if the sandbox has to end with it.
    _boot: Option<UnixStream>,
}

impl Native {
    pub fn new(config: BackendConfig) -> Self {
        let home = Directories::new(&config.home);
        let images = Store::new(coracle_images::StoreConfig {
            directory: home.images.clone(),
            registries: config.registries.clone(),
            clock: config.clock,
            crash: config.crash,
            in_turn: weak::off(weak::Wall::Pulls),
        });
        let privilege = Privilege::detect();
        Self {
            home,
            images,
            privilege,
            config,
            layout: OnceLock::new(),
            buildah: OnceLock::new(),
            children: Mutex::default(),
        }
    }

    /// Returns the machine's cgroups. Looks them up once, when they are first needed. Does not remember a failure:
    /// it may have been a lack of descriptors, which passes.
    fn layout(&self) -> Result<&Layout> {
        if let Some(layout) = self.layout.get() {
            return Ok(layout);
        }
        let layout = Layout::detect().map_err(|error| {
            Error::new(Kind::NotAvailable, format!("could not find the machine's cgroups: {error}"))
                .hint("run `coracle doctor` to see what is missing")
        })?;
        Ok(self.layout.get_or_init(|| layout))
    }

    fn children(&self) -> MutexGuard<'_, HashMap<SandboxId, Child>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cage that holds the processes of a sandbox.
    fn cage(&self, sandbox: &SandboxId) -> Result<Cage<'_>> {
        Ok(match self.privilege {
            Privilege::Root => Cage::Groups(Group::new(self.layout()?, &self.parent(), sandbox.as_str())),
            Privilege::Rootless { .. } => Cage::Process(First::new(self.home.first(sandbox))),
        })
    }

    /// Returns the path of this instance's cgroups, in each tree.
    fn parent(&self) -> std::path::PathBuf {
        std::path::Path::new("coracle").join(self.config.instance.as_str())
    }
}

impl Backend for Native {
    fn name(&self) -> &str {
        "native"
    }

    fn probe(&self) -> Probe {
        probe::probe(self)
    }

    fn fit(&self, spec: &Spec) -> Result<()> {
        probe::fit(self, spec)
    }

    fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<()> {
        self.prepare_image(spec, progress)
    }

    fn create(&self, order: &Order<'_>) -> Result<Created> {
        create::create(self, order, None)
    }

    fn connect(&self, sandbox: &SandboxId, _placement: &Placement) -> Result<UnixStream> {
        self.home.connect(sandbox).map_err(|error| {
            let kind = if place::proves_death(&error) { Kind::NotFound } else { Kind::NotAvailable };
            Error::new(kind, format!("could not reach the guest of sandbox `{sandbox}`")).caused_by(error)
        })
    }

    fn guest_end(&self, sandbox: &SandboxId) -> Option<GuestEnd> {
        survey::guest_end(self, sandbox)
    }

    fn usage(&self, sandbox: &SandboxId, _placement: &Placement) -> Result<Usage> {
        usage::usage(self, sandbox)
    }

    fn destroy(&self, sandbox: &SandboxId) -> Result<()> {
        destroy::destroy(self, sandbox)
    }

    fn images(&self) -> Option<&dyn Images> {
        Some(self)
    }

    fn builder(&self) -> Option<&dyn Builder> {
        self.has_buildah().then_some(self)
    }

    /// Only root can give a sandbox a cgroup, by which its commands are frozen.
    fn check_pausing(&self) -> Result<()> {
        match self.privilege.is_root() {
            true => Ok(()),
            false => Err(Error::new(Kind::Unsupported, "pausing needs root")
                .hint("run coracle as root, and open the sandbox again there")),
        }
    }

    fn forking(&self) -> Option<&dyn Forking> {
        Some(self)
    }

    fn hibernation(&self) -> Option<&dyn Hibernation> {
        Some(self)
    }

    fn volumes(&self) -> Option<&dyn Volumes> {
        Some(self)
    }

    /// Everything this backend keeps is in the home, and goes with it.
    fn purge(&self) -> Result<usize> {
        Ok(Volumes::list(self)?.len())
    }

    fn brace(&self, low: bool) {
        if self.privilege.is_root() {
            requests::make_small(self.config.home.path(), low);
        }
    }

    fn survey(&self) -> Result<Vec<Found>> {
        survey::survey(self)
    }

    fn remains(&self) -> Result<Vec<String>> {
        elsewhere::remains(self)
    }
}

impl Hibernation for Native {
    fn expect_keeping(&self, spec: &Spec) -> Result<()> {
        hibernate::expect_keeping(spec, self.privilege)
    }

    fn has_files(&self, sandbox: &SandboxId) -> Result<bool> {
        Ok(self.home.has_files(sandbox))
    }

    fn rest(&self, sandbox: &SandboxId) -> Result<Option<u64>> {
        hibernate::rest(self, sandbox)
    }

    fn wake(&self, order: &Order<'_>) -> Result<Created> {
        hibernate::wake(self, order)
    }
}

impl Forking for Native {
    fn fork_source<'a>(&'a self, held: &HeldSandbox<'_>) -> Result<Box<dyn ForkSource + 'a>> {
        fork_source::take_files(self, held)
    }

    fn snapshot(&self, held: &HeldSandbox<'_>, image: &ImageId) -> Result<Stored> {
        snapshot::keep(self, held, image)
    }
}
