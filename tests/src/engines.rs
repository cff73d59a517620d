//! Container engines of the tests' own: Docker and Podman with their own sockets, images, networks, cgroups and
//! processes.

pub mod api;
pub mod image;
pub mod leash;
pub mod relay;
pub mod sshd;
pub mod test_backend;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;

pub use image::TEST_IMAGE;
pub use leash::Storage;
use leash::{EngineDir, Leash};

use crate::census::links;
use crate::{Home, eventually};

/// They need one second on an idle machine.
const START_MAX: Duration = Duration::from_secs(60);
/// How often an engine is started that does not come up.
const STARTS_MAX: usize = 3;

/// An engine we know how to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Docker,
    Podman,
}

/// What becomes of the containers of an engine that is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Containers {
    /// The engine ends them as it ends, or as it finds them.
    End,
    /// They run on without it.
    Live,
}

/// How an engine ends to be started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is asked to, and does what it does at the end.
    Asked,
    /// As by `kill -9`.
    Killed,
}

/// A running engine. It ends with its value, and with the process that holds it however that ends.
#[derive(Debug)]
pub struct Engine {
    kind: Kind,
    containers: Containers,
    /// Several tests use it at the same time.
    shared: bool,
    dir: PathBuf,
    leash: Mutex<Leash>,
}

/// Returns the Docker engine all tests of this process share.
pub fn docker() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::with_image(Kind::Docker))
}

/// Returns the Podman engine all tests of this process share.
pub fn podman() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::with_image(Kind::Podman))
}

impl Engine {
    /// Starts an engine and waits until it answers.
    pub fn start(kind: Kind, storage: Storage, containers: Containers) -> io::Result<Self> {
        let dir = EngineDir::new()?;
        let path = dir.path().to_owned();
        let leash = Mutex::new(Leash::new(dir, storage, &program(kind, &path))?);
        let engine = Self { kind, containers, shared: false, dir: path, leash };
        engine.begin()?;
        Ok(engine)
    }

    /// Starts an engine for all tests of this process, with [`TEST_IMAGE`].
    fn with_image(kind: Kind) -> Self {
        let engine = Self::start(kind, Storage::Memory, Containers::End).expect("the engine starts");
        engine.load(image::archive());
        Self { shared: true, ..engine }
    }

    /// Makes a home whose sandboxes are made there, of [`TEST_IMAGE`], unless a call says otherwise.
    pub fn home(&'static self) -> Home {
        let backend = match self.kind {
            Kind::Docker => "docker",
            Kind::Podman => "podman",
        };
        Home::new().at(self).env("CORACLE_BACKEND", backend).env("CORACLE_ENGINE_IMAGE", TEST_IMAGE)
    }

    /// Tells whether other tests use it at the same time: what has no name there may be theirs.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Ends the engine and starts it again, with everything it had.
    pub fn restart(&self, ending: Ending) {
        self.stop(ending);
        self.begin().expect("an engine starts again");
    }

    /// Ends the engine, but not the processes of containers that outlive it.
    pub fn stop(&self, ending: Ending) {
        let order = match ending {
            Ending::Asked => "term",
            Ending::Killed => "kill",
        };
        self.order(order).expect("an engine ends");
    }

    /// Starts the engine, and waits until it answers.
    pub fn begin(&self) -> io::Result<()> {
        let flags = match (self.kind, self.containers) {
            (Kind::Docker, Containers::Live) => "--live-restore",
            // Podman's containers never depend on the engine.
            (Kind::Docker, Containers::End) | (Kind::Podman, _) => "",
        };
        self.begin_with(flags)
    }

    /// Starts the engine with other flags, and waits until it answers. Docker's daemon gives its containerd fifteen seconds and
    /// then gives up, which a busy machine brings about now and then; it is started again then.
    pub fn begin_with(&self, flags: &str) -> io::Result<()> {
        let answers = || api::ask(&self.socket(), "GET", "/_ping", b"").is_ok();
        for _ in 0..STARTS_MAX {
            self.order(&format!("start {flags}"))?;
            if eventually(START_MAX, answers).is_some() {
                return Ok(());
            }
            self.order("kill")?;
        }
        Err(io::Error::other(format!("it does not start: {}", self.log())))
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.join("engine.sock")
    }

    pub fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Returns the directory all of it is in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns what its clients read its address from.
    pub fn variable(&self) -> &'static str {
        match self.kind {
            Kind::Docker => "DOCKER_HOST",
            Kind::Podman => "CONTAINER_HOST",
        }
    }

    /// Returns a command of Docker's command line that talks to this engine.
    pub fn client<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new("docker");
        command.env("DOCKER_HOST", self.address()).args(words);
        command
    }

    /// Brings the images of an archive as `docker save` writes it.
    pub fn load(&self, archive: &[u8]) {
        api::ask(&self.socket(), "POST", "/images/load", archive).expect("an engine loads an image");
    }

    /// Returns what the engine says at a path of its API.
    pub fn document(&self, path: &str) -> Value {
        api::document(&self.socket(), path).expect("an engine answers")
    }

    /// Returns the names of all containers with a label, such as `coracle.instance=ins_…`; running or not.
    pub fn containers(&self, label: &str) -> Vec<String> {
        let filters = api::escaped(&serde_json::json!({"label": [label]}).to_string());
        let listed = self.document(&format!("/containers/json?all=1&filters={filters}"));
        let listed = listed.as_array().into_iter().flatten();
        let name = |container: &Value| container["Names"][0].as_str().unwrap_or_default().to_owned();
        listed.map(name).collect()
    }

    /// Returns the ids of the same.
    pub fn container_ids(&self, label: &str) -> Vec<String> {
        let filters = api::escaped(&serde_json::json!({"label": [label]}).to_string());
        let listed = self.document(&format!("/containers/json?all=1&filters={filters}"));
        let listed = listed.as_array().into_iter().flatten();
        listed.filter_map(|container| container["Id"].as_str().map(str::to_owned)).collect()
    }

    /// Returns the number of the engine's process.
    pub fn process(&self) -> u32 {
        let socket = self.address();
        let pids = std::fs::read_dir("/proc").expect("/proc is mounted").flatten();
        let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_ours = |pid: &u32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            // The process that isolates it has the same words further behind.
            (words.starts_with("dockerd") || words.starts_with("podman")) && words.contains(&socket)
        };
        pids.find(is_ours).expect("the engine runs")
    }

    /// Returns the namespaces the engine is in.
    pub fn namespaces(&self) -> BTreeSet<String> {
        links(&format!("/proc/{}/ns", self.process()))
    }

    /// Returns the engine's own cgroups, one in each tree.
    pub fn groups(&self) -> Vec<PathBuf> {
        let name = self.dir.file_name().unwrap_or_default();
        let trees = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        let trees = trees.map(|tree| tree.path()).chain([PathBuf::from("/sys/fs/cgroup")]);
        trees.map(|tree| tree.join(name)).filter(|group| group.is_dir()).collect()
    }

    /// Returns what the engine has logged since the last look.
    pub fn log(&self) -> String {
        self.leash.lock().unwrap_or_else(PoisonError::into_inner).log()
    }

    fn order(&self, order: &str) -> io::Result<()> {
        self.leash.lock().unwrap_or_else(PoisonError::into_inner).order(order)
    }
}

/// Returns the command that starts an engine. Everything it keeps is in its directory.
fn program(kind: Kind, dir: &Path) -> Vec<String> {
    let path = |name: &str| dir.join(name).display().to_string();
    let socket = format!("unix://{}", path("engine.sock"));
    let words: &[&str] = match kind {
        Kind::Docker => &[
            "dockerd",
            "--host",
            &socket,
            "--data-root",
            &path("data"),
            "--exec-root",
            &path("exec"),
            "--pidfile",
            &path("engine.pid"),
        ],
        Kind::Podman => &[
            "podman",
            "--root",
            &path("data/root"),
            "--runroot",
            &path("data/run"),
            "--tmpdir",
            &path("data/tmp"),
            "--runtime",
            "runc",
            "--cgroup-manager",
            "cgroupfs",
            "--events-backend",
            "file",
            "--storage-driver",
            "overlay",
            "system",
            "service",
            "--time",
            "0",
            &socket,
        ],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}
