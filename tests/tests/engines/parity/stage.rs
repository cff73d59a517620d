//! Where the script is played: every call is made on one backend and written down as it would be anywhere.

use std::time::Duration;

use coracle_tests::engines::test_backend::TestBackend;
use coracle_tests::{Finished, Home, eventually};
use serde_json::{Value, json};

use super::names::Names;

/// A command says at once what it is asked to say.
const HEARD_MAX: Duration = Duration::from_secs(20);

/// One part of the script on one backend, with sandboxes of its own.
pub struct Stage<'a> {
    home: &'a Home,
    backend: TestBackend,
    names: Names,
    /// Every call and its answer.
    transcript: Vec<String>,
}

impl<'a> Stage<'a> {
    pub fn new(home: &'a Home, backend: TestBackend) -> Self {
        let names = Names::new(home.path(), &backend.name());
        Self { home, backend, names, transcript: Vec::new() }
    }

    /// Returns what was written down, one entry a call.
    pub fn transcript(self) -> Vec<String> {
        self.transcript
    }

    /// Calls the binary.
    pub fn call(&mut self, words: &[&str]) -> Finished {
        self.call_with(words, b"")
    }

    /// Calls the binary with something to read.
    pub fn call_with(&mut self, words: &[&str], stdin: &[u8]) -> Finished {
        let finished = self.home.call(words).stdin(stdin).run();
        self.write_down(&words.join(" "), &finished);
        finished
    }

    /// Carries out an operation by its name.
    pub fn operation(&mut self, name: &str, input: &Value) -> Value {
        let finished = self.home.operation(name, input).run();
        let mut shown = input.clone();
        // The arguments are the same everywhere but for the backend.
        shown.as_object_mut().map(|fields| fields.remove("backend"));
        self.write_down(&format!("call {name} {shown}"), &finished);
        serde_json::from_slice(&finished.stdout).unwrap_or_default()
    }

    /// Opens a sandbox and returns its id.
    pub fn open(&mut self, flags: &[&str]) -> String {
        let flags = [&["open", "--json"], flags].concat();
        let opened = self.make(&flags);
        let opened: Value = serde_json::from_slice(&opened.stdout).unwrap_or_default();
        opened["sandbox_id"].as_str().unwrap_or("sbx_none").to_owned()
    }

    /// Makes a call that makes a sandbox here; the flags for that come before the command.
    pub fn make(&mut self, words: &[&str]) -> Finished {
        let command = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let flags = self.backend.flags();
        let (before, after) = words.split_at(command);
        let all = before.iter().copied().chain(flags.iter().map(String::as_str)).chain(after.iter().copied());
        let finished = self.home.call(all).run();
        self.write_down(&words.join(" "), &finished);
        finished
    }

    /// Returns the input of an operation that makes a sandbox here.
    pub fn spec(&self, mut input: Value) -> Value {
        input["image"] = json!(coracle_tests::engines::TEST_IMAGE);
        input["backend"] = json!(self.backend.name());
        input
    }

    /// Runs a script in a sandbox, as the command line does it.
    pub fn shell(&mut self, sandbox: &str, script: &str) -> Finished {
        self.call(&["exec", sandbox, "--json", "--", "sh", "-c", script])
    }

    /// Runs a command in a sandbox by the operation, with more fields.
    pub fn exec(&mut self, sandbox: &str, command: &[&str], mut more: Value) -> Value {
        more["sandbox_id"] = json!(sandbox);
        more["cmd"] = json!(command);
        self.operation("sandbox_exec", &more)
    }

    /// Waits until a running command has said so many pieces, without writing that down: how often one has to look is
    /// a matter of pace.
    pub fn hears(&self, sandbox: &str, exec: &str, pieces: usize) -> bool {
        let input = json!({"sandbox_id": sandbox, "exec_id": exec});
        let heard = || {
            let read = self.home.operation("sandbox_exec_read", &input).run();
            let read: Value = serde_json::from_slice(&read.stdout).unwrap_or_default();
            read["chunks"].as_array().is_some_and(|chunks| chunks.len() >= pieces)
        };
        eventually(HEARD_MAX, heard).is_some()
    }

    /// Returns a directory on this machine that goes with the home.
    pub fn local(&self, name: &str) -> String {
        self.home.path().join(name).display().to_string()
    }

    fn write_down(&mut self, words: &str, finished: &Finished) {
        let shown: String = words.chars().take(300).collect();
        let code = finished.code().map_or("a signal".to_owned(), |code| code.to_string());
        let shown = self.names.text(&shown);
        let answer = self.names.output(&finished.stdout);
        let talk = self.names.talk(&finished.stderr);
        self.transcript
            .push(format!("coracle {shown}\n  ends with {code}\n  says {answer}\n  talks {talk:?}"));
    }
}
