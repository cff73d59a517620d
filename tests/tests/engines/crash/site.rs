//! A home and the container engine its sandboxes are on, with a count of the containers and volumes left there.

use std::time::Duration;

use coracle_tests::engines::{Containers, Engine, Kind, Storage, TEST_IMAGE, image};
use coracle_tests::{Call, Finished, Home, SOON, eventually};
use serde_json::Value;

/// Nothing may take longer, whatever was done to the engine: it would be called a hang.
pub const DEADLINE: Duration = Duration::from_secs(60);
/// How long an engine may take to finish a request whose client was killed.
const SETTLE: Duration = SOON;

/// Starts an engine of a test's own, which may be ended and started again.
pub fn engine(containers: Containers) -> Engine {
    let engine = Engine::start(Kind::Docker, Storage::Memory, containers).expect("an engine starts");
    engine.load(image::archive());
    engine
}

/// A home that uses one engine.
#[derive(Debug)]
pub struct Site<'a> {
    pub engine: &'a Engine,
    pub home: Home,
}

impl<'a> Site<'a> {
    pub fn at(engine: &'a Engine) -> Self {
        Self::through(engine, &engine.address())
    }

    /// Returns a site whose home knows the engine by another address than its own.
    pub fn through(engine: &'a Engine, address: &str) -> Self {
        Self { engine, home: Home::new().env(engine.variable(), address) }
    }

    fn backend(&self) -> &'static str {
        match self.engine.kind() {
            Kind::Docker => "docker",
            Kind::Podman => "podman",
        }
    }

    pub fn flags(&self) -> [&'static str; 4] {
        ["--image", TEST_IMAGE, "--backend", self.backend()]
    }

    pub fn call(&self, words: &[&str]) -> Call {
        self.home.call(words).within(DEADLINE)
    }

    pub fn open_call(&self, more: &[&str]) -> Call {
        self.call(&[&["open", "--json"], &self.flags()[..], more].concat())
    }

    pub fn open(&self) -> String {
        self.open_with(&[])
    }

    pub fn open_with(&self, more: &[&str]) -> String {
        let opened = self.open_call(more).succeed().json();
        opened["sandbox_id"].as_str().expect("`open --json` names the sandbox").to_owned()
    }

    pub fn exec(&self, sandbox: &str, script: &str) -> Call {
        self.call(&["exec", sandbox, "--", "sh", "-c", script])
    }

    pub fn run(&self, script: &str) -> Finished {
        self.call(&[&["run"], &self.flags()[..], &["--", "sh", "-c", script]].concat()).run()
    }

    pub fn record(&self, sandbox: &str) -> Value {
        self.call(&["show", sandbox, "--json"]).succeed().json()
    }

    pub fn state(&self, sandbox: &str) -> String {
        self.record(sandbox)["state"].as_str().expect("a record has a state").to_owned()
    }

    /// Returns the containers, the images and the directories that are there for this home.
    pub fn left(&self) -> Vec<String> {
        let Some(instance) = self.home.instance() else { return Vec::new() };
        let installer = format!("coracle-install-{instance}").to_lowercase();
        let listed = self.engine.document("/containers/json?all=1");
        let containers = listed.as_array().into_iter().flatten().filter(|container| {
            container["Labels"]["coracle.instance"] == *instance || container.to_string().contains(&installer)
        });
        let images = self.engine.document("/images/json?all=1");
        let images = images.as_array().into_iter().flatten().map(Value::to_string);
        // Without a name it is what an installation has left, of this home only if no other home uses the engine.
        let nameless = |image: &String| !self.engine.is_shared() && image.contains("<none>");
        let images = images.filter(|image| image.contains(&installer) || nameless(image));
        let directories = self.home.census().directories;
        let directories = directories.iter().map(|path| path.display().to_string());
        containers.map(|container| container["Names"].to_string()).chain(images).chain(directories).collect()
    }

    /// Fails unless one `gc` leaves exactly these sandboxes, each with one container and one directory.
    ///
    /// An engine goes on with a request after its client was killed, so that the first `gc` may come too
    /// early; what it could not see yet is never lost to a later one.
    #[track_caller]
    pub fn expect_only(&self, sandboxes: &[&str]) {
        let settled = eventually(SETTLE, || {
            self.call(&["gc"]).run();
            self.left().len() == 2 * sandboxes.len()
        });
        let left = self.left();
        assert!(settled.is_some(), "only {sandboxes:?} should be there: {left:#?}");
        let known = |line: &String| sandboxes.iter().any(|sandbox| line.contains(sandbox));
        assert!(left.iter().all(known), "only {sandboxes:?} should be there: {left:#?}");
        self.call(&["gc"]).succeed();
        self.home.expect_no_orphans();
    }

    /// Closes all sandboxes, and fails if anything is left.
    #[track_caller]
    pub fn expect_all_gone(&self) {
        for record in self.home.live() {
            self.call(&["close", record["sandbox_id"].as_str().expect("an id")]).succeed();
        }
        self.expect_only(&[]);
    }

    /// Returns the sandboxes that can be used, after a `gc`.
    pub fn ready(&self) -> Vec<String> {
        self.call(&["gc"]).run();
        let live = self.home.live().into_iter().filter(|record| record["state"] == "ready");
        live.map(|record| record["sandbox_id"].as_str().expect("an id").to_owned()).collect()
    }
}
