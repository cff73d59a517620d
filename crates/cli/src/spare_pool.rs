//! The spare pool between calls. If the settings ask for spares, a process of ours (`coracle spares`) makes them, gives
//! them out and removes used ones, so that a call waits for neither.
//!
//! No call depends on that process: a call that does not find it makes its sandbox itself, and starts the process for
//! the next call.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle::config::Config;
use coracle::{Error, Result, RunId, SandboxId};
use coracle_core::home::short_path;
use coracle_core::{Home, Record, Spec};
use coracle_engine::{Caller, RemoteSpares};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::stderr;

/// Giving out a spare takes a millisecond. Whoever takes this long is stopped or dying.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a call asks of the process, a line of JSON. Each is answered by one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A sandbox like this. Answered by its record, or by `null` if there is none yet.
    Take { run: RunId, spec: Box<Spec> },
    /// Nothing runs in it any more; it shall go. Answered by whether that is written down.
    Dismiss { run: RunId, sandbox: SandboxId },
    /// Remove all spares and end. Answered by `true`.
    End,
}

/// A line to the process.
#[derive(Debug)]
pub struct Line {
    stream: BufReader<UnixStream>,
}

impl Line {
    /// Opens it, if somebody is there.
    pub fn open(home: &Home) -> Option<Self> {
        let stream =
            UnixStream::connect(short_path(&File::open(home.path()).ok()?, home.spares_socket())).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(Self { stream: BufReader::new(stream) })
    }

    pub fn take(&mut self, run: &RunId, spec: &Spec) -> Option<Record> {
        self.ask::<Option<Record>>(&Request::Take { run: run.clone(), spec: Box::new(spec.clone()) }).ok()?
    }

    /// Tells whether the sandbox is going.
    pub fn dismiss(&mut self, run: &RunId, sandbox: &SandboxId) -> bool {
        self.ask(&Request::Dismiss { run: run.clone(), sandbox: sandbox.clone() }).unwrap_or(false)
    }

    pub fn end(&mut self) -> io::Result<bool> {
        self.stream.get_ref().set_read_timeout(None)?;
        self.ask(&Request::End)
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> io::Result<T> {
        send(self.stream.get_ref(), request)?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

/// The spares one call has to do with.
#[derive(Debug)]
pub struct PoolClient {
    config: Config,
    line: Mutex<Option<Line>>,
}

impl PoolClient {
    /// Returns the spares of a home, if its settings ask for any.
    pub fn of(context: &Context) -> Result<Option<Arc<dyn RemoteSpares>>> {
        let config = context.config()?;
        match config.spares.is_some_and(|count| count > 0) {
            true => Ok(Some(Arc::new(Self { config: config.clone(), line: Mutex::new(None) }))),
            false => Ok(None),
        }
    }

    fn line(&self) -> MutexGuard<'_, Option<Line>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the process for the next call, with what this one asked for.
    fn start(&self, spec: &Spec) {
        if let Err(error) = spawn(&self.config, spec) {
            stderr::warning(&Error::internal("could not start keeping spares", error).chain());
        }
    }
}

impl RemoteSpares for PoolClient {
    /// Calls the process that keeps them, or has one do so from now on.
    fn take(&self, caller: &Caller, spec: &Spec) -> Option<Record> {
        let spec = Spec { runtime: None, ..spec.clone() };
        spec.shape()?;
        let mut line = self.line();
        *line = Line::open(&self.config.home);
        match &mut *line {
            Some(line) => line.take(&caller.claim.run, &spec),
            None => {
                self.start(&spec);
                None
            }
        }
    }

    fn dismiss(&self, caller: &Caller, sandbox: &SandboxId) -> bool {
        self.line().as_mut().is_some_and(|line| line.dismiss(&caller.claim.run, sandbox))
    }
}

/// Writes one message.
pub fn send<T: Serialize>(mut stream: &UnixStream, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Listens for calls, in the stead of a process that is gone. Only one may: the caller holds the lock.
pub fn listen(home: &Home) -> io::Result<UnixListener> {
    let directory = File::open(home.path())?;
    hang_up(home);
    UnixListener::bind(short_path(&directory, home.spares_socket()))
}

/// Takes the name away nobody answers at any more. One that stays is in the way of the next who listens, who says so.
pub fn hang_up(home: &Home) {
    let _ = std::fs::remove_file(home.spares_socket());
}

fn spawn(config: &Config, spec: &Spec) -> io::Result<()> {
    let shape = serde_json::to_string(&spec.shape())?;
    Command::new(std::env::current_exe()?)
        .arg("spares")
        .args(["--like", &shape])
        .arg("--home")
        .arg(config.home.path())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(drop)
}
