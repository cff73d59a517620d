//! One call of the binary. Every call ends: past its patience it is killed and the test fails.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::eventually;

/// Long enough for a loaded machine, short enough that a hang is seen as one.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long after its end a call's output may still be on its way.
const DRAIN: Duration = Duration::from_secs(10);
/// Output beyond this is counted but not kept.
const KEPT_MAX: usize = 64 << 20;

/// A call to be made.
#[derive(Debug)]
pub struct Call {
    /// The program and its arguments.
    words: Vec<OsString>,
    /// What the program is started by, if not by us.
    through: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    mark: u64,
    stdin: Vec<u8>,
    patience: Duration,
}

impl Call {
    /// Prepares a call of a program. `mark` is the limit by which the census knows all that descends from it.
    pub fn new<S: AsRef<OsStr>>(program: &Path, mark: u64, arguments: impl IntoIterator<Item = S>) -> Self {
        let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned());
        Self {
            words: std::iter::once(program.into()).chain(arguments).collect(),
            through: Vec::new(),
            env: Vec::new(),
            mark,
            stdin: Vec::new(),
            patience: PATIENCE,
        }
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Has the call started by another program, which finds it in its last arguments.
    pub fn through<S: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.through = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        self
    }

    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Sets how long the call may take.
    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Makes the call and waits for its end.
    pub fn run(self) -> Finished {
        self.start().finish()
    }

    /// Makes the call and expects it to succeed.
    pub fn succeed(self) -> Finished {
        self.run().expect_code(0)
    }

    /// Makes the call and leaves it running.
    pub fn start(mut self) -> Started {
        let input = std::mem::take(&mut self.stdin);
        let (started, mut stdin) = self.start_talking();
        // A command that does not read its input is no fault of the test.
        std::thread::spawn(move || drop(stdin.write_all(&input)));
        started
    }

    /// Makes the call, leaves it running, and hands out its standard input, which is open until that is dropped.
    pub fn start_talking(self) -> (Started, ChildStdin) {
        let mut command = Command::new("prlimit");
        command.arg(format!("--msgqueue={}:", self.mark)).args(&self.through).args(&self.words);
        command.process_group(0).env_remove("CORACLE_RUN").env_remove("CORACLE_EPOCH").envs(self.env);
        let words = self.words.iter().skip(1).map(|word| word.to_string_lossy());
        let shown = format!("coracle {}", words.collect::<Vec<_>>().join(" "));
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = pipes.spawn().expect("the binary under test can be started");
        let stdin = child.stdin.take().expect("stdin is a pipe");
        let stdout = Collected::from(child.stdout.take().expect("stdout is a pipe"));
        let stderr = Collected::from(child.stderr.take().expect("stderr is a pipe"));
        (Started { child, shown, started, patience: self.patience, stdout, stderr, peak: 0 }, stdin)
    }
}

/// A call under way.
#[derive(Debug)]
pub struct Started {
    child: Child,
    shown: String,
    started: Instant,
    patience: Duration,
    stdout: Collected,
    stderr: Collected,
    peak: u64,
}

impl Started {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns what it has written to stdout so far.
    pub fn stdout(&self) -> Vec<u8> {
        self.stdout.lock().kept.clone()
    }

    /// Returns what it has written to stderr so far.
    pub fn stderr(&self) -> Vec<u8> {
        self.stderr.lock().kept.clone()
    }

    /// Waits until `enough` of stdout is there.
    pub fn wait_for(&self, enough: impl Fn(&[u8]) -> bool) {
        let seen = eventually(self.patience, || enough(&self.stdout.lock().kept));
        assert!(
            seen.is_some(),
            "`{}` did not print what was waited for; it printed {:?}",
            self.shown,
            self.text()
        );
    }

    /// Sends SIGKILL to the call alone, not to what it started.
    pub fn kill(mut self) -> Finished {
        self.child.kill().expect("a child that was not waited for can be signalled");
        self.finish()
    }

    /// Tells whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_some()
    }

    /// Sends a signal to the call alone.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("a child that was not waited for can be signalled");
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// If it does not come in time, or if something still holds its output open afterwards.
    pub fn finish(mut self) -> Finished {
        let mut status = None;
        eventually(self.patience.saturating_sub(self.started.elapsed()), || {
            self.peak = self.peak.max(peak_memory(self.child.id()).unwrap_or(0));
            status = self.child.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        let elapsed = self.started.elapsed();
        let Some(status) = status else {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            panic!("`{}` was still running after {elapsed:?}; stdout so far {:?}", self.shown, self.text());
        };
        let drained = eventually(DRAIN, || self.stdout.lock().ended && self.stderr.lock().ended);
        assert!(drained.is_some(), "`{}` has ended, but something still holds its output open", self.shown);
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        Finished {
            shown: self.shown,
            status,
            stdout: stdout.kept,
            stdout_bytes: stdout.bytes,
            stderr: String::from_utf8_lossy(&stderr.kept).into_owned(),
            elapsed,
            peak_memory: self.peak,
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout.lock().kept).into_owned()
    }
}

/// A call that has ended.
#[derive(Debug)]
pub struct Finished {
    shown: String,
    status: ExitStatus,
    pub stdout: Vec<u8>,
    /// All that was written to stdout, kept or not.
    pub stdout_bytes: u64,
    pub stderr: String,
    pub elapsed: Duration,
    /// The most memory the call itself had resident, in bytes.
    pub peak_memory: u64,
}

impl Finished {
    /// Returns the exit code, `None` if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Tells whether SIGKILL ended it.
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(Signal::KILL.as_raw())
    }

    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert!(self.code() == Some(code), "expected exit code {code}: {self}");
        assert!(!self.stderr.contains("panicked"), "it panicked: {self}");
        self
    }

    /// Returns stdout as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap_or_else(|_| panic!("stdout is not UTF-8: {self}"))
    }

    /// Returns stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not JSON ({error}): {self}"))
    }

    /// Expects coracle itself to have failed, and returns its error object.
    #[track_caller]
    pub fn error(self) -> Value {
        let finished = self.expect_code(125);
        let object = finished.error_object();
        object.unwrap_or_else(|| panic!("no error object: {finished}"))
    }

    /// Expects coracle itself to have failed, and returns the kind of its error.
    #[track_caller]
    pub fn error_kind(self) -> String {
        let error = self.error();
        let kind = error["kind"].as_str().unwrap_or_else(|| panic!("the error has no kind: {error}"));
        kind.to_owned()
    }

    fn error_object(&self) -> Option<Value> {
        let lines = self.stderr.lines().chain(std::str::from_utf8(&self.stdout).ok()?.lines());
        let whole = serde_json::from_slice::<Value>(&self.stdout).ok();
        let objects =
            whole.into_iter().chain(lines.filter_map(|line| serde_json::from_str::<Value>(line).ok()));
        objects.map(|object| object["error"].clone()).find(Value::is_object)
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let head = &self.stdout[..self.stdout.len().min(4096)];
        write!(
            f,
            "`{}` ended with {}\nstdout: {}\nstderr: {}",
            self.shown,
            self.status,
            String::from_utf8_lossy(head),
            self.stderr
        )
    }
}

/// What a thread has read from a pipe.
#[derive(Debug, Clone)]
struct Collected(Arc<Mutex<Output>>);

#[derive(Debug, Default)]
struct Output {
    kept: Vec<u8>,
    bytes: u64,
    ended: bool,
}

impl Collected {
    fn from(mut pipe: impl Read + Send + 'static) -> Self {
        let collected = Self(Arc::default());
        let ours = collected.clone();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(read @ 1..) = pipe.read(&mut buffer) {
                let mut output = ours.lock();
                let room = KEPT_MAX.saturating_sub(output.kept.len()).min(read);
                output.kept.extend_from_slice(&buffer[..room]);
                output.bytes += read as u64;
            }
            ours.lock().ended = true;
        });
        collected
    }

    fn lock(&self) -> MutexGuard<'_, Output> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Output {
        std::mem::take(&mut *self.lock())
    }
}

/// Returns the most memory a process has had resident, in bytes.
pub fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}
