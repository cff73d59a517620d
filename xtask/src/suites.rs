//! Runs test binaries, several at once: most tests wait for a process most of the time, and each binary ends with one
//! long test while all other threads are idle.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo;

/// How many binaries run at once.
const LANES: usize = 2;

/// The suites that take longest, longest first: what starts last should be short. The two that keep a container engine busy
/// are so far apart that they do not run side by side.
const LONGEST: &[&str] = &[
    "engines",
    "attack",
    "http",
    "attack_docker",
    "cli",
    "docs",
    "programs",
    "repos",
    "install",
    "crash",
    "mcp",
    "telemetry",
    "lifecycle",
    "repos",
    "builds",
    "images",
];

/// One test binary.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Suite {
    name: String,
    executable: PathBuf,
    /// Where cargo would run it: the directory of its package.
    directory: PathBuf,
}

/// A suite that has ended.
struct Ended {
    name: String,
    status: ExitStatus,
    took: Duration,
    log: PathBuf,
}

/// Builds all test binaries of the workspace and runs them, each with these variables and words to filter by.
///
/// A suite that fails does not stop the others. Its output is printed when it ends.
pub fn run(environment: &Environment, filter: &[String]) -> Result<()> {
    let suites = build()?;
    let logs = cargo::target_directory()?.join("suites");
    std::fs::create_dir_all(&logs).with_context(|| format!("could not make `{}`", logs.display()))?;
    let queue = Mutex::new(VecDeque::from(suites));
    let ended = Mutex::new(Vec::new());
    std::thread::scope(|scope| -> Result<()> {
        let lane = || -> Result<()> {
            while let Some(suite) = next(&queue) {
                let end = suite.run(environment, filter, &logs)?;
                end.report();
                ended.lock().expect("no lane panics while it holds the lock").push(end);
            }
            Ok(())
        };
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect("a lane does not panic"))
    })?;
    let ended = ended.into_inner().expect("no lane panics while it holds the lock");
    let failed: Vec<&str> =
        ended.iter().filter(|end| !end.status.success()).map(|end| end.name.as_str()).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("these suites failed: {}; their output is above", failed.join(", ")),
    }
}

/// Variables every suite gets.
#[derive(Debug, Default)]
pub struct Environment(Vec<(&'static str, std::ffi::OsString)>);

impl Environment {
    pub fn set(&mut self, name: &'static str, value: impl Into<std::ffi::OsString>) {
        self.0.push((name, value.into()));
    }

    /// Hands the variables to a command.
    pub fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Returns the next suite. A function, so that the lock is not held while the suite runs.
fn next(queue: &Mutex<VecDeque<Suite>>) -> Option<Suite> {
    queue.lock().expect("no lane panics while it holds the lock").pop_front()
}

/// Builds every test binary and returns them, those that take longest first.
fn build() -> Result<Vec<Suite>> {
    let mut command = cargo::cargo(["test", "--workspace", "--no-run"]);
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let output =
        command.stderr(Stdio::inherit()).output().context("could not start `cargo test --no-run`")?;
    if !output.status.success() {
        bail!("the tests do not build: {}", output.status);
    }
    let mut suites: Vec<Suite> =
        String::from_utf8_lossy(&output.stdout).lines().filter_map(Suite::from_message).collect();
    suites.sort_by_key(|suite| LONGEST.iter().position(|name| *name == suite.name).unwrap_or(LONGEST.len()));
    Ok(suites)
}

impl Suite {
    /// Reads a line of cargo's build messages; `None` unless it names a test binary.
    fn from_message(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let target = message["target"]["name"].as_str()?;
        // The tests inside of a crate; those beside it are called what they are about.
        let inside = message["target"]["kind"][0] != "test";
        let name = if inside { format!("{target} (unit tests)") } else { target.to_owned() };
        Some(Self { name, executable: message["executable"].as_str()?.into(), directory })
    }

    fn run(&self, environment: &Environment, filter: &[String], logs: &Path) -> Result<Ended> {
        // Two crates may have suites of one name; no two executables have.
        let log = logs.join(self.executable.file_name().unwrap_or_default()).with_extension("log");
        let file = File::create(&log).with_context(|| format!("could not write `{}`", log.display()))?;
        let start = Instant::now();
        // A shell that starts us in the background makes us ignore interrupts, and `nohup` hang-ups; without `env` the tested
        // programs would inherit that.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP,INT,QUIT").arg(&self.executable);
        environment.apply(&mut command).args(filter).current_dir(&self.directory).stdin(Stdio::null());
        let status = command.stdout(file.try_clone()?).stderr(file).status();
        let status = status.with_context(|| format!("could not start `{}`", self.executable.display()))?;
        Ok(Ended { name: self.name.clone(), status, took: start.elapsed(), log })
    }
}

impl Ended {
    fn report(&self) {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        if !self.status.success() {
            println!("{}", failures(&log));
        }
        let result = log.lines().rev().find_map(|line| line.strip_prefix("test result: "));
        let counts = result.map_or_else(|| self.status.to_string(), str::to_owned);
        println!("{:>5} s  {}: {counts}", self.took.as_secs(), self.name);
    }
}

/// Returns the part of a log that says what failed and why; all of it if the suite did not get as far as to say.
fn failures(log: &str) -> &str {
    log.find("\nfailures:\n").map_or(log, |start| &log[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_of_a_log_is_what_failed() {
        let log = "test a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nno\n";

        assert_eq!(failures(log), "\nfailures:\n\n---- b stdout ----\nno\n");
        assert_eq!(failures("test a ... ok\nkilled"), "test a ... ok\nkilled");
    }

    #[test]
    fn a_test_binary_is_told_from_everything_else_cargo_builds() {
        let of = |test: bool, kind: &str| {
            let message = serde_json::json!({
                "reason": "compiler-artifact",
                "manifest_path": "/w/tests/Cargo.toml",
                "target": {"name": "cli", "kind": [kind]},
                "profile": {"test": test},
                "executable": "/w/target/debug/deps/cli-0",
            });
            Suite::from_message(&message.to_string()).map(|suite| suite.name)
        };

        assert_eq!(of(true, "test").as_deref(), Some("cli"));
        assert_eq!(of(true, "lib").as_deref(), Some("cli (unit tests)"));
        assert_eq!(of(false, "bin"), None);
        assert_eq!(Suite::from_message("{\"reason\": \"build-finished\"}"), None);
    }
}
