//! The spare pool between calls. If the settings ask for spares, a separate process (`coracle spares`) makes them,
//! gives them out and removes used ones, so that a call waits for neither.
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

/// Giving out a spare takes a millisecond. A process that takes this long is stopped or dying.
const PATIENCE: Duration = Duration::from_secs(2);

/// A request to that process, a line of JSON. Each is answered by one line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Asks for a sandbox like this. Answered by its record, or by `null` if there is none yet.
    Take { run: RunId, spec: Box<Spec> },
    /// Asks to remove a sandbox in which nothing runs any more. Answered by whether its record says so.
    Dismiss { run: RunId, sandbox: SandboxId },
    /// Asks to remove all spares and end. Answered by `true`.
    End,
}

/// A connection to the process.
#[derive(Debug)]
pub struct Line {
    stream: BufReader<UnixStream>,
}

impl Line {
    /// Connects, if the process listens.
    pub fn open(home: &Home) -> Option<Self> {
        let stream =
            UnixStream::connect(short_path(&File::open(home.path()).ok()?, home.spares_socket())).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(Self { stream: BufReader::new(stream) })
    }

    pub fn take(&mut self, run: &RunId, spec: &Spec) -> Option<Record> {
        self.ask::<Option<Record>>(&Request::Take { run: run.clone(), spec: Box::new(spec.clone()) }).ok()?
    }

    /// Tells whether the process removes the sandbox.
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

/// The spares for one call.
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

    /// Starts the process for the next call, with the spec of this one.
    fn start(&self, spec: &Spec) {
        if let Err(error) = spawn(&self.config, spec) {
            stderr::warning(&Error::internal("could not start keeping spares", error).chain());
        }
    }
}

impl RemoteSpares for PoolClient {
    /// Asks the process for a spare, or starts one for the next call.
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

/// Listens for calls, replacing the socket of a process that is gone. The caller holds the lock, so there is only
/// one.
pub fn listen(home: &Home) -> io::Result<UnixListener> {
    let directory = File::open(home.path())?;
    hang_up(home);
    UnixListener::bind(short_path(&directory, home.spares_socket()))
}

/// Removes the socket on which no process listens any more. If it stays, the next listener reports it.
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
