//! Spares between calls: where the settings ask for any, a process of ours keeps them, gives them out and removes what
//! was used, so that a call pays for neither.
//!
//! It is a help and never needed: a call that finds nobody makes its sandbox itself, and starts the process for the
//! next one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use coracle::config::Config;
use coracle::{Error, Result, RunId, SandboxId};
use coracle_core::{Record, Spec};
use coracle_engine::Caller;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::stderr;

const SOCKET: &str = "stock.sock";
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
    pub fn open(home: &Path) -> Option<Self> {
        let stream = UnixStream::connect(socket(&File::open(home).ok()?)).ok()?;
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

/// The spares one call has to do with: none, unless the settings ask for them.
#[derive(Debug)]
pub struct Stock<'a> {
    config: &'a Config,
    spec: Spec,
    line: Option<Line>,
}

impl<'a> Stock<'a> {
    /// Calls whoever keeps them, or has somebody do so from now on.
    pub fn of(context: &'a Context, spec: Spec) -> Result<Self> {
        let config = context.config()?;
        let spec = Spec { runtime: None, ..spec };
        let wanted = config.spares.is_some_and(|count| count > 0) && spec.shape().is_some();
        let line = if wanted { Line::open(&config.home) } else { None };
        let stock = Self { config, spec, line };
        if wanted && stock.line.is_none() {
            stock.start();
        }
        Ok(stock)
    }

    pub fn take(&mut self, caller: &Caller) -> Option<Record> {
        self.line.as_mut()?.take(&caller.claim.run, &self.spec)
    }

    /// Leaves removing a sandbox to whoever keeps the spares; tells whether somebody does.
    pub fn dismiss(&mut self, caller: &Caller, sandbox: &SandboxId) -> bool {
        self.line.as_mut().is_some_and(|line| line.dismiss(&caller.claim.run, sandbox))
    }

    /// Starts the process for the next call, with what this one asked for.
    fn start(&self) {
        if let Err(error) = spawn(self.config, &self.spec) {
            stderr::warning(&Error::internal("could not start keeping spares", error).chain());
        }
    }
}

/// Writes one message.
pub fn send<T: Serialize>(mut stream: &UnixStream, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Listens for calls, in the stead of a process that is gone. Only one may: the caller holds the lock.
pub fn listen(home: &Path) -> io::Result<UnixListener> {
    let directory = File::open(home)?;
    hang_up(home);
    UnixListener::bind(socket(&directory))
}

/// Takes the name away nobody answers at any more. One that stays is in the way of the next who listens, who says so.
pub fn hang_up(home: &Path) {
    let _ = std::fs::remove_file(home.join(SOCKET));
}

fn spawn(config: &Config, spec: &Spec) -> io::Result<()> {
    let shape = serde_json::to_string(&spec.shape())?;
    Command::new(std::env::current_exe()?)
        .arg("stock")
        .args(["--like", &shape])
        .arg("--home")
        .arg(&config.home)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(drop)
}

/// A socket's path has at most 107 bytes, and the home's may be longer: it is named through a descriptor.
fn socket(home: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", home.as_raw_fd()))
}
