//! One home in memory: a store, a backend, a clock and an engine over them.

use std::sync::Arc;

use coracle_core::install::PackageCache;
use coracle_core::store::Store;
use coracle_core::{Backend, Epoch, Error, ExecId, InstanceId, Policy, Record, SandboxId};
use coracle_engine::egress::Threads;
use coracle_engine::{Caller, CrashPoints, Engine, ExecRequest, Keepers, Parts, Roster};
use coracle_testing::{FakeBackend, FakeStore, ManualClock, sample};
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct World {
    pub store: FakeStore,
    pub backend: FakeBackend,
    pub clock: ManualClock,
    pub engine: Engine,
    /// Where keepers are.
    pub keepers: Arc<TempDir>,
}

impl World {
    pub fn new() -> Self {
        Self::crashing(CrashPoints::default())
    }

    pub fn crashing(crash: CrashPoints) -> Self {
        Self::made_of(FakeBackend::new, Policy::default(), crash)
    }

    /// Returns a world whose operator has these rules.
    pub fn ruled_by(policy: Policy) -> Self {
        Self::made_of(FakeBackend::new, policy, CrashPoints::default())
    }

    /// Returns a world whose backend keeps neither images nor volumes.
    pub fn bare() -> Self {
        Self::made_of(FakeBackend::bare, Policy::default(), CrashPoints::default())
    }

    /// Returns a world whose backend is on another machine.
    pub fn far() -> Self {
        Self::made_of(FakeBackend::far, Policy::default(), CrashPoints::default())
    }

    /// Returns a world whose backend builds images.
    pub fn building(policy: Policy) -> Self {
        Self::made_of(FakeBackend::building, policy, CrashPoints::default())
    }

    fn made_of(backend: fn(InstanceId) -> FakeBackend, policy: Policy, crash: CrashPoints) -> Self {
        let store = FakeStore::new();
        let backend = backend(store.instance().expect("a store has an instance"));
        let clock = ManualClock::default();
        let keepers = Arc::new(tempfile::tempdir().expect("a directory can be made"));
        let packages: Arc<dyn PackageCache> = Arc::new(store.packages().ruled_by(policy.install.clone()));
        let parts = parts(&store, &backend, &clock, &keepers);
        let engine = Engine::new(Parts { crash, policy, packages: Some(packages), ..parts });
        Self { store, backend, clock, engine, keepers }
    }

    /// Returns another process on the same home, after the machine was restarted.
    pub fn after_reboot(&self) -> Engine {
        if self.backend.ends_with_this_machine() {
            self.backend.reboot();
        }
        let parts = parts(&self.store, &self.backend, &self.clock, &self.keepers);
        Engine::new(Parts { boot: "another-boot".to_owned(), ..parts })
    }

    pub fn call(&self, run: &str, name: &str, input: Value) -> Result<Value, Error> {
        self.engine.call(caller(run), name, input)
    }

    pub fn ok(&self, run: &str, name: &str, input: Value) -> Value {
        self.call(run, name, input).unwrap_or_else(|error| panic!("`{name}` failed: {}", error.to_json()))
    }

    pub fn refused(&self, run: &str, name: &str, input: Value) -> Error {
        match self.call(run, name, input) {
            Ok(reply) => panic!("`{name}` was not refused: {reply}"),
            Err(error) => error,
        }
    }

    pub fn open(&self, run: &str) -> SandboxId {
        self.open_key(run, None)
    }

    pub fn open_key(&self, run: &str, key: Option<&str>) -> SandboxId {
        let reply = self.ok(run, "sandbox_open", json!({ "session_key": key }));
        reply["sandbox_id"].as_str().expect("an id is text").parse().expect("an id of ours is valid")
    }

    /// Opens a sandbox that ends with its guest instead of falling asleep.
    pub fn open_without_sleep(&self, run: &str, key: Option<&str>) -> SandboxId {
        let reply = self.ok(run, "sandbox_open", json!({ "session_key": key, "on_idle": "destroy" }));
        reply["sandbox_id"].as_str().expect("an id is text").parse().expect("an id of ours is valid")
    }

    /// Opens a sandbox with a network.
    pub fn open_with_network(&self, run: &str, network: &str) -> SandboxId {
        let reply = self.ok(run, "sandbox_open", json!({ "network": network }));
        reply["sandbox_id"].as_str().expect("an id is text").parse().expect("an id of ours is valid")
    }

    pub fn record(&self, id: &SandboxId) -> Record {
        self.store.find(id).expect("the store answers").expect("the record is there")
    }

    /// Runs a command to its end.
    pub fn exec(&self, run: &str, id: &SandboxId, cmd: &[&str]) -> Value {
        self.ok(run, "sandbox_exec", json!({ "sandbox_id": id, "cmd": cmd }))
    }

    /// Starts a command that runs until it is stopped.
    pub fn start_sleeper(&self, run: &str, id: &SandboxId) -> ExecId {
        let request = ExecRequest { argv: argv(&["sleep", "60"]), ..ExecRequest::default() };
        self.engine.execs().start(caller(run), id, &request).expect("a sleeper starts").exec_id
    }
}

pub fn caller(run: &str) -> Caller {
    Caller::acting_as(sample::run(run))
}

pub fn caller_at(run: &str, epoch: u64) -> Caller {
    caller(run).under(Some(Epoch(epoch)))
}

pub fn argv(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

pub fn parts(store: &FakeStore, backend: &FakeBackend, clock: &ManualClock, keepers: &TempDir) -> Parts {
    Parts {
        store: Arc::new(store.clone()),
        backends: Roster::of(vec![Arc::new(backend.clone())]),
        clock: Arc::new(clock.clone()),
        policy: Policy::default(),
        boot: sample::BOOT.to_owned(),
        crash: CrashPoints::default(),
        logs: Some(Arc::new(store.kept_logs())),
        keepers: Some(Keepers::new(keepers.path().to_owned(), Arc::new(Threads))),
        packages: Some(Arc::new(store.packages())),
        disk: None,
        claims: Some(coracle_engine::Claims::new(keepers.path().join(".claims"))),
        repos: Arc::new(coracle_testing::FakeRepos::default()),
    }
}
