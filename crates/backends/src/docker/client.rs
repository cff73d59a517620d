//! A blocking client of one container engine, for one request at a time.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bollard::API_DEFAULT_VERSION;
use coracle_core::{Cancel, Error, Kind, Result};
use futures_util::future::{Either, select};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::endpoint::{Endpoint, SshPlace};
use super::{failure, secure, tunnel};
use crate::BackendConfig;

/// How long a container engine may take to begin its answer, in seconds. Starting a container on a busy machine
/// takes many.
const PATIENCE: u64 = 120;
/// A reachable container engine answers a greeting at once; callers wait no longer.
const GREETING: Duration = Duration::from_millis(2500);
/// The same across the world: a connection, its encryption and an answer, on a bad day.
const FAR_GREETING: Duration = Duration::from_secs(5);

/// A container engine. Connects at the first request.
pub struct Client {
    endpoint: Result<Endpoint>,
    ssh: Vec<String>,
    /// The directory of sockets that lead to other machines.
    tunnels: PathBuf,
    /// Its own threads, which also carry connections to guests.
    runtime: OnceLock<std::io::Result<Runtime>>,
}

impl Client {
    pub fn new(endpoint: Result<Endpoint>, config: &BackendConfig) -> Self {
        let engines = &config.engines;
        let ssh = engines.ssh.clone().unwrap_or_else(|| vec!["ssh".to_owned()]);
        Self { endpoint, ssh, tunnels: tunnel::directory(config), runtime: OnceLock::new() }
    }

    /// Runs one request to its end. `attempted` says what for, in the words after "could not".
    pub fn ask<T, F>(&self, attempted: &str, question: impl FnOnce(bollard::Docker) -> F) -> Result<T>
    where
        F: Future<Output = Result<T, bollard::errors::Error>>,
    {
        let docker = self.docker()?;
        self.runtime()?
            .block_on(question(docker))
            .map_err(|error| failure::explain(attempted, &self.shown(), error))
    }

    /// Like [`Client::ask`], for long work that may be cancelled. The container engine abandons a request whose
    /// client is gone.
    pub fn ask_until<T, F>(
        &self,
        cancel: &Cancel,
        attempted: &str,
        question: impl FnOnce(bollard::Docker) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, bollard::errors::Error>>,
    {
        cancel.check()?;
        let cancelled = Arc::new(Notify::new());
        let _cut = {
            let cancelled = cancelled.clone();
            cancel.on_cancel(move || cancelled.notify_one())
        };
        let answered = self.ask(attempted, |docker| {
            let answer = question(docker);
            async move {
                match select(pin!(answer), pin!(cancelled.notified())).await {
                    Either::Left((answer, _)) => answer.map(Some),
                    Either::Right(_) => Ok(None),
                }
            }
        });
        match answered {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(cancel.reason()),
            Err(error) => Err(error),
        }
    }

    /// Like [`Client::ask`], for requests that must not wait for ever on a container engine that hangs.
    pub fn ask_within<T, F>(
        &self,
        limit: Duration,
        attempted: &str,
        question: impl FnOnce(bollard::Docker) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, bollard::errors::Error>>,
    {
        self.ask(attempted, |docker| {
            let answer = question(docker);
            async move {
                let late = |_| Err(bollard::errors::Error::RequestTimeoutError);
                tokio::time::timeout(limit, answer).await.unwrap_or_else(late)
            }
        })
    }

    /// Asks, for a short time, whether the container engine is reachable.
    pub fn greet(&self) -> Result<bollard::models::SystemVersion> {
        let docker = self.docker()?;
        let patience = if self.is_local() { GREETING } else { FAR_GREETING };
        let version = async move { tokio::time::timeout(patience, docker.version()).await };
        match self.runtime()?.block_on(version) {
            Ok(answer) => answer.map_err(|error| failure::explain("reach the engine", &self.shown(), error)),
            Err(_) => {
                Err(Error::new(Kind::NotAvailable, format!("the engine at {} does not answer", self.shown()))
                    .hint("see whether it is stopped or overloaded"))
            }
        }
    }

    /// Tells whether the container engine listens on this machine, as far as its address says.
    pub fn is_local(&self) -> bool {
        matches!(self.endpoint, Ok(Endpoint::Unix(_)))
    }

    /// Returns its address, for people.
    pub fn shown(&self) -> String {
        self.endpoint.as_ref().map_or_else(|_| "nowhere".to_owned(), ToString::to_string)
    }

    pub fn runtime(&self) -> Result<&Runtime> {
        let build = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        self.runtime.get_or_init(build).as_ref().map_err(|error| {
            Error::new(
                Kind::Internal,
                format!("could not start the threads that speak to an engine: {error}"),
            )
        })
    }

    /// Returns the container engine's client; sends nothing.
    pub fn docker(&self) -> Result<bollard::Docker> {
        let unix = |path: &std::path::Path| {
            bollard::Docker::connect_with_unix(&path.to_string_lossy(), PATIENCE, API_DEFAULT_VERSION)
        };
        let _entered = self.runtime()?.enter();
        let connected = match self.endpoint()? {
            Endpoint::Unix(path) => unix(path),
            Endpoint::Tcp { .. } => {
                bollard::Docker::connect_with_http(&self.shown(), PATIENCE, API_DEFAULT_VERSION)
            }
            Endpoint::Tls { certificates, .. } => {
                return secure::connect(&self.shown(), certificates, PATIENCE);
            }
            Endpoint::Ssh(place) => unix(&self.tunnel(place)?),
        };
        connected.map_err(|error| failure::explain("reach the engine", &self.shown(), error))
    }

    fn endpoint(&self) -> Result<&Endpoint> {
        self.endpoint.as_ref().map_err(|error| {
            let told = Error::new(error.kind, error.chain());
            error.hint.iter().fold(told, |told, hint| told.hint(hint))
        })
    }

    fn tunnel(&self, place: &SshPlace) -> Result<PathBuf> {
        tunnel::open(place, &self.ssh, &self.tunnels)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoint", &self.shown()).finish_non_exhaustive()
    }
}
