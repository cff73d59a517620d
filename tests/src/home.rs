//! A home of its own for one test. When it goes, everything in it is closed and nothing may be left.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::census::{Process, instance, still_held};
use crate::engines::Engine;
use crate::{Call, Census, binary, eventually};

/// How long the kernel may take to do away with what was killed, network namespaces included.
const SETTLE: Duration = Duration::from_secs(10);

/// The id of an ordinary user: unused on every machine we know.
pub const ORDINARY: u32 = 64_321;

/// An empty `CORACLE_HOME`.
#[derive(Debug)]
pub struct Home {
    directory: TempDir,
    mark: u64,
    instance: OnceLock<String>,
    namespaces: Mutex<BTreeSet<String>>,
    /// Walls that are left out.
    weakened: Option<String>,
    /// What every call finds in its environment.
    variables: Vec<(String, String)>,
    /// What every call is started by.
    through: Vec<String>,
    /// The binary for an ordinary user, if one makes the calls.
    ordinary: Option<TempDir>,
    /// The engine its sandboxes are at, if they are not on the machine itself.
    engine: Option<&'static Engine>,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    pub fn new() -> Self {
        Self::on(&std::env::temp_dir())
    }

    /// Makes a home in a directory of the test's.
    pub fn on(parent: &Path) -> Self {
        let directory = tempfile::Builder::new().prefix("coracle-test-").tempdir_in(parent);
        let directory = directory.expect("a directory can be made");
        // Below the hard limit everywhere, and different for homes that exist at the same time.
        let mark = 1 + RandomState::new().hash_one(directory.path()) % 800_000;
        Self {
            directory,
            mark,
            instance: OnceLock::new(),
            namespaces: Mutex::default(),
            weakened: None,
            variables: Vec::new(),
            through: Vec::new(),
            ordinary: None,
            engine: None,
        }
    }

    /// Makes a home whose sandboxes lack walls, named like the variants of `coracle_wire::Wall`.
    pub fn weakened(walls: &[&str]) -> Self {
        let mut home = Self::new();
        home.weakened = Some(walls.join(","));
        home
    }

    /// Makes a home in which everything is done by an ordinary user.
    pub fn ordinary() -> Self {
        let id = ORDINARY.to_string();
        let become_user =
            ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--"].map(str::to_owned);
        let mut home = Self::new().through(&become_user);
        home.ordinary = Some(binary::for_everybody());
        std::os::unix::fs::chown(home.path(), Some(ORDINARY), Some(ORDINARY))
            .expect("root gives its directory away");
        home
    }

    /// Tells whether everything in it is done by an ordinary user.
    pub fn is_ordinary(&self) -> bool {
        self.ordinary.is_some()
    }

    /// Sets a variable for every call.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Has every call find this engine, and every census count its containers.
    pub fn at(mut self, engine: &'static Engine) -> Self {
        self.engine = Some(engine);
        self.env(engine.variable(), engine.address())
    }

    /// Has every call started by another program, which finds the call in its last arguments.
    pub fn through(mut self, words: &[String]) -> Self {
        self.through = words.to_vec();
        self
    }

    /// Has everything every call is started by be started by yet another program.
    pub fn inside(mut self, words: &[String]) -> Self {
        self.through.splice(0..0, words.iter().cloned());
        self
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Prepares a call of the binary in this home.
    pub fn call<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Call {
        let binary = match (&self.weakened, &self.ordinary) {
            (Some(_), _) => binary::weak().to_owned(),
            (None, Some(directory)) => directory.path().join("coracle"),
            (None, None) => binary::path().to_owned(),
        };
        self.call_by(&binary, arguments)
    }

    /// Prepares a call of another build in this home.
    pub fn call_by<S: AsRef<OsStr>>(&self, binary: &Path, arguments: impl IntoIterator<Item = S>) -> Call {
        let mut call = Call::new(binary, self.mark, arguments).env("CORACLE_HOME", self.path());
        if self.ordinary.is_some() {
            call = call.env("HOME", self.path());
        }
        call = self.variables.iter().fold(call, |call, (name, value)| call.env(name, value));
        call.env("CORACLE_WEAKEN", self.weakened.as_deref().unwrap_or_default()).through(&self.through)
    }

    /// Prepares a call of one operation with its JSON.
    pub fn operation(&self, name: &str, input: &Value) -> Call {
        self.call(["call", name, "-"]).stdin(input.to_string())
    }

    /// Opens a sandbox and returns its id.
    pub fn open(&self) -> String {
        self.open_with(&[])
    }

    /// Opens a sandbox with more flags and returns its id.
    pub fn open_with(&self, flags: &[&str]) -> String {
        let opened = self.call(["open", "--json"].iter().chain(flags)).succeed().json();
        opened["sandbox_id"].as_str().expect("`open --json` names the sandbox").to_owned()
    }

    /// Prepares a command in an open sandbox.
    pub fn exec<'a>(&self, sandbox: &'a str, command: impl IntoIterator<Item = &'a str>) -> Call {
        self.call(["exec", sandbox, "--"].into_iter().chain(command))
    }

    /// Makes a token for a tenant, with more flags, and returns its text.
    pub fn token(&self, tenant: &str, flags: &[&str]) -> String {
        let words = ["token", "create", "--tenant", tenant].into_iter().chain(flags.iter().copied());
        self.call(words).succeed().text().trim().to_owned()
    }

    /// Returns the records of live sandboxes.
    pub fn live(&self) -> Vec<Value> {
        let listed = self.call(["ps", "--json"]).succeed().json();
        listed.as_array().unwrap_or_else(|| panic!("`ps --json` is not an array: {listed}")).clone()
    }

    pub fn census(&self) -> Census {
        let mut census = Census::take(self.path(), self.mark, self.instance());
        if let (Some(engine), Some(instance)) = (self.engine, self.instance()) {
            census.add_containers(
                &engine.container_ids(&format!("coracle.instance={instance}")),
                &engine.groups(),
            );
        }
        self.namespaces.lock().expect("no census panics").extend(census.namespaces());
        census
    }

    /// Returns the id this home goes by on the machine, once it has one.
    pub fn instance(&self) -> Option<&str> {
        if self.instance.get().is_none() {
            instance(self.path()).map(|id| self.instance.set(id));
        }
        self.instance.get().map(String::as_str)
    }

    /// Fails unless everything is gone: processes, cgroups, mounts, directories, and every namespace a census has seen.
    #[track_caller]
    pub fn expect_nothing_left(&self) {
        let gone = eventually(SETTLE, || self.census().is_empty());
        assert!(gone.is_some(), "this is left:\n{}", self.census().describe());
        let mut seen = self.namespaces.lock().expect("no census panics").clone();
        // A weak sandbox shares some with its engine, which stays.
        let kept = self.engine.map(Engine::namespaces).unwrap_or_default();
        seen.retain(|name| !kept.contains(name));
        let released = eventually(SETTLE, || still_held(&seen).is_empty());
        assert!(released.is_some(), "these namespaces are left: {:?}", still_held(&seen));
    }

    /// Fails unless `doctor` finds no orphan.
    #[track_caller]
    pub fn expect_no_orphans(&self) {
        let report = self.call(["doctor", "--orphans", "--json"]).succeed().json();
        let orphans = report["orphans"].as_array().unwrap_or_else(|| panic!("no list of orphans: {report}"));
        assert!(orphans.is_empty(), "doctor found orphans: {report}");
    }

    /// Closes every live sandbox under whatever run owns it.
    fn close_all(&self) {
        for record in self.live() {
            let sandbox = record["sandbox_id"].as_str().unwrap_or_default();
            let mut arguments = vec!["close", sandbox];
            arguments.extend(record["owner"].as_str().iter().flat_map(|owner| ["--run", *owner]));
            self.call(arguments).run();
        }
        self.call(["gc"]).run();
    }

    /// Ends what a failed test has left running, so that it cannot disturb the others.
    fn kill_all(&self) {
        self.census().processes.iter().for_each(Process::kill);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.close_all()));
            self.kill_all();
            return;
        }
        self.close_all();
        self.expect_nothing_left();
    }
}
