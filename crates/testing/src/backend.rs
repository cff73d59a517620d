//! A backend in memory whose guests speak the wire protocol, with faults on request.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use coracle_wire::Command;
use serde_json::json;

use super::guest::{Guest, Tree};
use super::images::FakeImages;
use super::sample;
use super::volumes::FakeVolumes;
use coracle_core::backend::{
    Backend, Created, Found, GuestEnd, Order, Placement, Probe, Profile, Silence, Wall,
};
use coracle_core::error::{Error, Kind, Result};
use coracle_core::forking::{ForkSource, Forking, HeldSandbox, Method};
use coracle_core::hibernation::Hibernation;
use coracle_core::ids::{ImageId, InstanceId, SandboxId};
use coracle_core::image::{self, Builder, Images, Progress, Stored};
use coracle_core::spec::{Spec, Storage};
use coracle_core::volume::Volumes;

/// A moment in the work of the fake backend at which a test can inject a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    Prepare,
    /// Before anything was made.
    Create,
    /// The sandbox's directory exists, its guest does not.
    DirectoryMade,
    /// The guest answers, the caller does not know yet.
    GuestStarted,
    /// Before the files of a sandbox are taken.
    TakeFiles,
    Connect,
    /// Before anything is removed.
    Destroy,
    /// The guest is dead, the directory still exists.
    GuestKilled,
    /// Before the guest of a sandbox is ended that goes to sleep.
    Rest,
    /// Before a guest is started for a sandbox at rest.
    Wake,
    Survey,
}

/// The injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call returns an error and leaves what it had made: callers must not rely on a clean failure.
    Fail,
    /// The caller dies: the call unwinds with [`Crash`], to be caught by [`crashes`].
    Crash,
}

/// The payload a crashed caller unwinds with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash;

/// Tells whether `deed` ended in a [`Crash`]. Other panics go on.
pub fn crashes(deed: impl FnOnce()) -> bool {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(deed)) {
        Ok(()) => false,
        Err(payload) if payload.is::<Crash>() => true,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// A strict backend in memory. Clones share it, as processes share a machine.
///
/// It panics on what no caller may do: making a sandbox twice, for another instance or from an image that was not
/// prepared, connecting with a placement that is not its own.
#[derive(Debug, Clone)]
pub struct FakeBackend {
    name: String,
    instance: InstanceId,
    machine: Arc<Machine>,
    images: FakeImages,
    volumes: FakeVolumes,
    bare: bool,
    builds: bool,
    far: bool,
}

#[derive(Debug, Default)]
struct Machine {
    sandboxes: Mutex<BTreeMap<SandboxId, Resident>>,
    faults: Mutex<BTreeMap<Step, Fault>>,
    boots: AtomicU64,
    creates: AtomicU64,
    probes: AtomicU64,
    /// Why every call fails; absent while calls work.
    away: Mutex<Option<String>>,
    /// It accepts calls and does not answer them.
    hung: Mutex<bool>,
    answers: Condvar,
    surveys: AtomicU64,
    silences: AtomicU64,
    connects: AtomicU64,
    /// The last value passed to `brace`.
    braced: Mutex<Option<bool>>,
    /// Walls that do not stand on it.
    lacking: Mutex<Vec<String>>,
}

/// What the machine has of one sandbox: always a directory, and perhaps a guest.
#[derive(Debug)]
struct Resident {
    instance: InstanceId,
    guest: Option<Guest>,
    /// The files its last guest left.
    files: Option<Tree>,
    /// The end its guest recorded.
    end: Option<GuestEnd>,
}

impl Resident {
    /// Ends its guest, if it has one; its files stay.
    fn end_guest(&mut self) {
        if let Some(guest) = self.guest.take() {
            self.files = Some(guest.files());
            guest.die();
        }
    }
}

impl FakeBackend {
    /// Returns a backend on a machine of its own.
    pub fn new(instance: InstanceId) -> Self {
        let (images, volumes) = (FakeImages::default(), FakeVolumes::default());
        let (name, machine) = ("fake".to_owned(), Arc::default());
        Self { name, instance, machine, images, volumes, bare: false, builds: false, far: false }
    }

    /// Returns it under another name.
    pub fn called(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Returns the backend of another instance on the same machine. Images and volumes are each instance's own.
    pub fn beside(&self, instance: InstanceId) -> Self {
        Self { machine: self.machine.clone(), bare: self.bare, ..Self::new(instance) }
    }

    /// Returns a backend that keeps neither images nor volumes, and forks nothing.
    pub fn bare(instance: InstanceId) -> Self {
        Self { bare: true, ..Self::new(instance) }
    }

    /// Returns a backend whose sandboxes do not end with coracle's machine.
    pub fn far(instance: InstanceId) -> Self {
        Self { far: true, ..Self::new(instance) }
    }

    /// Returns a backend that builds images, too.
    pub fn building(instance: InstanceId) -> Self {
        Self { builds: true, ..Self::new(instance) }
    }

    /// Returns its images, and the registry they come from.
    pub fn image_shelf(&self) -> &FakeImages {
        &self.images
    }

    /// Makes every call fail for this reason, as a stopped container engine does. Its sandboxes stay as they are.
    pub fn go_away(&self, reason: &str) {
        *lock(&self.machine.away) = Some(reason.to_owned());
    }

    /// Undoes [`FakeBackend::go_away`].
    pub fn come_back(&self) {
        *lock(&self.machine.away) = None;
    }

    /// Makes every call wait until [`FakeBackend::answer_again`], as on a container engine that a signal stopped.
    pub fn stop_answering(&self) {
        *lock(&self.machine.hung) = true;
    }

    pub fn answer_again(&self) {
        *lock(&self.machine.hung) = false;
        self.machine.answers.notify_all();
    }

    /// Returns the number of surveys.
    pub fn surveys(&self) -> u64 {
        self.machine.surveys.load(Ordering::SeqCst)
    }

    /// Returns the number of connections to its guests, failed ones included.
    pub fn connects(&self) -> u64 {
        self.machine.connects.load(Ordering::SeqCst)
    }

    /// Returns how many requests wait in a guest until its hold ends.
    pub fn waiting(&self, sandbox: &SandboxId) -> usize {
        let sandboxes = lock(&self.machine.sandboxes);
        sandboxes.get(sandbox).and_then(|resident| resident.guest.as_ref()).map_or(0, Guest::waiting)
    }

    /// Returns the last value passed to `brace`; `None` if there was no call.
    pub fn braced(&self) -> Option<bool> {
        *lock(&self.machine.braced)
    }

    /// Takes down walls, for every sandbox made from now on.
    pub fn lack(&self, walls: &[&str]) {
        lock(&self.machine.lacking).extend(walls.iter().map(ToString::to_string));
    }

    /// Returns the number of probes.
    pub fn probes(&self) -> u64 {
        self.machine.probes.load(Ordering::SeqCst)
    }

    /// Injects a fault into the next call that reaches `step`, once.
    pub fn fail_at(&self, step: Step, fault: Fault) {
        lock(&self.machine.faults).insert(step, fault);
    }

    /// Has the guest end by itself: it records why, and leaves its directory.
    pub fn end_guest(&self, sandbox: &SandboxId, end: GuestEnd) {
        self.kill_guest(sandbox);
        let mut sandboxes = lock(&self.machine.sandboxes);
        sandboxes.get_mut(sandbox).expect("it was there").end = Some(end);
    }

    /// Kills the guest and leaves its directory.
    pub fn kill_guest(&self, sandbox: &SandboxId) {
        let mut sandboxes = lock(&self.machine.sandboxes);
        let resident = sandboxes.get_mut(sandbox).filter(|resident| resident.guest.is_some());
        resident.expect("a guest that is killed was alive").end_guest();
    }

    /// Kills every guest on the machine.
    pub fn reboot(&self) {
        for resident in lock(&self.machine.sandboxes).values_mut() {
            resident.end_guest();
        }
    }

    /// Makes a sandbox that has no record.
    pub fn plant(&self, sandbox: &SandboxId) {
        let guest = Guest::boot(sample::record().secret, 1, self.next_boot(), Vec::new(), Tree::fresh());
        let resident =
            Resident { instance: self.instance.clone(), guest: Some(guest), files: None, end: None };
        lock(&self.machine.sandboxes).insert(sandbox.clone(), resident);
    }

    /// Returns a command as the guest received it.
    ///
    /// # Panics
    /// If there is no such sandbox or exec.
    pub fn command(&self, sandbox: &SandboxId, exec: &str) -> Command {
        let guest = lock(&self.machine.sandboxes).get(sandbox).and_then(|resident| resident.guest.clone());
        let command = guest.and_then(|guest| guest.command(exec));
        command.unwrap_or_else(|| panic!("exec `{exec}` was not started in `{sandbox}`"))
    }

    /// Connects to one of the network listeners in a sandbox, as a command would.
    ///
    /// # Panics
    /// If there is no such sandbox.
    pub fn reach_out(&self, sandbox: &SandboxId, listener: u32) -> UnixStream {
        let guest = lock(&self.machine.sandboxes).get(sandbox).and_then(|resident| resident.guest.clone());
        guest.expect("a sandbox with a guest").reach_out(listener)
    }

    /// Returns how many sandboxes were ever made on the machine.
    pub fn creates(&self) -> u64 {
        self.machine.creates.load(Ordering::SeqCst)
    }

    fn next_boot(&self) -> u64 {
        self.machine.boots.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn reach(&self, step: Step) -> Result<()> {
        let hung = lock(&self.machine.hung);
        drop(self.machine.answers.wait_while(hung, |hung| *hung).unwrap_or_else(PoisonError::into_inner));
        if let Some(reason) = &*lock(&self.machine.away) {
            return Err(Error::new(Kind::NotAvailable, format!("backend `{}` is away: {reason}", self.name)));
        }
        match lock(&self.machine.faults).remove(&step) {
            None => Ok(()),
            Some(Fault::Fail) => Err(Error::new(Kind::StartFailed, format!("told to fail at {step:?}"))),
            // Without the panic hook: an injected crash needs no message.
            Some(Fault::Crash) => std::panic::resume_unwind(Box::new(Crash)),
        }
    }

    fn make(&self, order: &Order<'_>, files: Tree) -> Result<Created> {
        assert_eq!(*order.instance, self.instance, "a sandbox was ordered for another instance");
        self.reach(Step::Create)?;
        self.machine.creates.fetch_add(1, Ordering::SeqCst);
        let image = match order.spec.image == image::HOST {
            true => image::Config::default(),
            false => self.images.take(order.sandbox, &order.spec.image),
        };
        self.insert_directory(order);
        self.volumes.mount(order.sandbox, order.spec);
        self.reach(Step::DirectoryMade)?;
        self.boot(order, image, files)
    }

    fn boot(&self, order: &Order<'_>, image: image::Config, files: Tree) -> Result<Created> {
        let env =
            order.spec.env.iter().map(|(name, value)| (name.clone().into(), value.clone().into())).collect();
        let guest = Guest::boot(order.secret.clone(), order.epoch.0, self.next_boot(), env, files);
        if let Some(resident) = lock(&self.machine.sandboxes).get_mut(order.sandbox) {
            (resident.guest, resident.end) = (Some(guest), None);
        }
        self.reach(Step::GuestStarted)?;
        Ok(Created { placement: Placement(json!({ "fake": order.sandbox })), profile: self.profile(), image })
    }

    fn profile(&self) -> Profile {
        let lacking = lock(&self.machine.lacking);
        let wall = |name: &str| Wall {
            name: name.to_owned(),
            enforced: !lacking.iter().any(|wall| wall == name),
            how: "it is not real".to_owned(),
            hint: None,
        };
        Profile { walls: ["cpu", "memory", "pids", "disk", "separate_users"].map(wall).to_vec() }
    }

    fn insert_directory(&self, order: &Order<'_>) {
        let resident = Resident { instance: self.instance.clone(), guest: None, files: None, end: None };
        let before = lock(&self.machine.sandboxes).insert(order.sandbox.clone(), resident);
        assert!(before.is_none(), "sandbox `{}` was made twice", order.sandbox);
    }
}

impl Backend for FakeBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn ends_with_this_machine(&self) -> bool {
        !self.far
    }

    fn probe(&self) -> Probe {
        self.machine.probes.fetch_add(1, Ordering::SeqCst);
        let reason = lock(&self.machine.away).clone();
        Probe { available: reason.is_none(), reason, version: None, endpoint: None, profile: self.profile() }
    }

    fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<()> {
        self.reach(Step::Prepare)?;
        match spec.image == image::HOST || self.images.is_here(&spec.image) {
            true => Ok(()),
            false => self.images.pull(&spec.image.parse()?, progress).map(drop),
        }
    }

    fn create(&self, order: &Order<'_>) -> Result<Created> {
        self.make(order, Tree::fresh())
    }

    fn connect(&self, sandbox: &SandboxId, placement: &Placement) -> Result<UnixStream> {
        self.machine.connects.fetch_add(1, Ordering::SeqCst);
        self.reach(Step::Connect)?;
        assert_eq!(
            placement.0,
            json!({ "fake": sandbox }),
            "connecting to `{sandbox}` with another's placement"
        );
        let guest = lock(&self.machine.sandboxes).get(sandbox).and_then(|resident| resident.guest.clone());
        guest.and_then(|guest| guest.connect()).ok_or_else(|| {
            Error::new(Kind::NotFound, format!("could not connect to sandbox `{sandbox}`: its guest is gone"))
        })
    }

    fn destroy(&self, sandbox: &SandboxId) -> Result<()> {
        self.reach(Step::Destroy)?;
        let guest = lock(&self.machine.sandboxes).get_mut(sandbox).and_then(|resident| {
            assert_eq!(resident.instance, self.instance, "sandbox `{sandbox}` is another instance's");
            resident.guest.take()
        });
        if let Some(guest) = guest {
            guest.die();
        }
        self.reach(Step::GuestKilled)?;
        self.images.let_go(sandbox);
        self.volumes.let_go(sandbox);
        lock(&self.machine.sandboxes).remove(sandbox);
        Ok(())
    }

    fn images(&self) -> Option<&dyn Images> {
        (!self.bare).then_some(&self.images as &dyn Images)
    }

    fn builder(&self) -> Option<&dyn Builder> {
        self.builds.then_some(&self.images as &dyn Builder)
    }

    fn check_pausing(&self) -> Result<()> {
        Ok(())
    }

    fn forking(&self) -> Option<&dyn Forking> {
        (!self.bare).then_some(self as &dyn Forking)
    }

    fn hibernation(&self) -> Option<&dyn Hibernation> {
        (!self.bare).then_some(self as &dyn Hibernation)
    }

    fn volumes(&self) -> Option<&dyn Volumes> {
        (!self.bare).then_some(&self.volumes as &dyn Volumes)
    }

    fn forget(&self, sandbox: &SandboxId) -> Result<Vec<String>> {
        match self.far {
            true => Ok(vec![format!("the guest of `{sandbox}` on another machine")]),
            false => Err(Error::new(Kind::Unsupported, "all of it is here")),
        }
    }

    fn guest_end(&self, sandbox: &SandboxId) -> Option<GuestEnd> {
        lock(&self.machine.sandboxes).get(sandbox).and_then(|resident| found(sandbox, resident).end)
    }

    fn silence(&self) -> Option<&dyn Silence> {
        self.far.then_some(self as &dyn Silence)
    }

    fn brace(&self, low: bool) {
        *lock(&self.machine.braced) = Some(low);
    }

    fn survey(&self) -> Result<Vec<Found>> {
        self.machine.surveys.fetch_add(1, Ordering::SeqCst);
        self.reach(Step::Survey)?;
        self.machine.silences.store(0, Ordering::SeqCst);
        let sandboxes = lock(&self.machine.sandboxes);
        let ours = sandboxes.iter().filter(|(_, resident)| resident.instance == self.instance);
        Ok(ours.map(|(id, resident)| found(id, resident)).collect())
    }
}

impl Hibernation for FakeBackend {
    fn expect_keeping(&self, spec: &Spec) -> Result<()> {
        match spec.storage {
            Some(Storage::Memory) => Err(Error::new(Kind::Unsupported, "files in memory end with the guest")),
            Some(Storage::Disk) | None => Ok(()),
        }
    }

    fn has_files(&self, sandbox: &SandboxId) -> Result<bool> {
        Ok(lock(&self.machine.sandboxes).get(sandbox).is_some_and(|resident| found(sandbox, resident).files))
    }

    fn rest(&self, sandbox: &SandboxId) -> Result<Option<u64>> {
        self.reach(Step::Rest)?;
        let mut sandboxes = lock(&self.machine.sandboxes);
        match sandboxes.get_mut(sandbox).filter(|resident| found(sandbox, resident).files) {
            None => {
                Err(Error::new(Kind::NotFound, format!("the files of sandbox `{sandbox}` are not there")))
            }
            Some(resident) => {
                resident.end_guest();
                Ok(Some(4096))
            }
        }
    }

    fn wake(&self, order: &Order<'_>) -> Result<Created> {
        assert_eq!(*order.instance, self.instance, "a sandbox was woken for another instance");
        self.reach(Step::Wake)?;
        let files = {
            let sandboxes = lock(&self.machine.sandboxes);
            let resident = sandboxes.get(order.sandbox).expect("a sandbox that is woken has a directory");
            assert!(resident.guest.is_none(), "sandbox `{}` was woken while it had a guest", order.sandbox);
            resident.files.clone().expect("a sandbox that is woken has files")
        };
        let image = match order.spec.image == image::HOST {
            true => image::Config::default(),
            false => self.images.take(order.sandbox, &order.spec.image),
        };
        self.boot(order, image, files)
    }
}

impl Forking for FakeBackend {
    fn fork_source<'a>(&'a self, held: &HeldSandbox<'_>) -> Result<Box<dyn ForkSource + 'a>> {
        self.reach(Step::TakeFiles)?;
        let sandboxes = lock(&self.machine.sandboxes);
        let guest = sandboxes.get(held.sandbox).and_then(|resident| resident.guest.clone());
        let guest = guest.expect("who takes the files of a sandbox has found it there");
        assert!(guest.is_held(), "the files of `{}` were taken while it was not held", held.sandbox);
        drop(sandboxes);
        held.grip.confirm()?;
        held.cancel.check()?;
        let method = if held.idle { Method::Layered } else { Method::Copied };
        Ok(Box::new(FakeForkSource { backend: self, files: guest.files(), method }))
    }

    fn snapshot(&self, held: &HeldSandbox<'_>, image: &ImageId) -> Result<Stored> {
        held.cancel.check()?;
        self.images.keep(image, held.tenant)
    }
}

impl Silence for FakeBackend {
    fn is_noted(&self) -> bool {
        self.machine.silences.load(Ordering::SeqCst) > 0
    }

    fn note(&self) {
        self.machine.silences.fetch_add(1, Ordering::SeqCst);
    }
}

/// The files of a sandbox at one moment.
struct FakeForkSource<'a> {
    backend: &'a FakeBackend,
    files: Tree,
    method: Method,
}

impl ForkSource for FakeForkSource<'_> {
    fn method(&self) -> Method {
        self.method
    }

    fn create(&self, order: &Order<'_>) -> Result<Created> {
        self.backend.make(order, self.files.clone())
    }
}

fn found(sandbox: &SandboxId, resident: &Resident) -> Found {
    let alive = resident.guest.as_ref().is_some_and(Guest::is_alive);
    let objects: &[&str] = if alive { &["directory", "process"] } else { &["directory"] };
    let objects = objects.iter().map(ToString::to_string).collect();
    let end = resident.end.filter(|_| !alive);
    let files = resident.guest.is_some() || resident.files.is_some();
    Found { sandbox: sandbox.clone(), alive, elsewhere: false, end, files, objects }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
