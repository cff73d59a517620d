//! A `coracle serve` of a test's own, at the home's socket and at a port of its own on loopback.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use crate::http::{DaemonAddress, Request};
use crate::{Call, Finished, Home, Started, eventually};

/// How long a test with a daemon may take in all.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long it may take to listen: spares are made meanwhile.
const START: Duration = Duration::from_secs(30);

/// A daemon under way. Dropping it kills it.
#[derive(Debug)]
pub struct Daemon {
    process: Option<Started>,
    socket: PathBuf,
    tcp: SocketAddr,
}

impl Daemon {
    /// Starts the daemon of a home and waits until it serves.
    pub fn start(home: &Home) -> Self {
        Self::start_with(home, &[])
    }

    /// The same, with more flags.
    pub fn start_with(home: &Home, flags: &[&str]) -> Self {
        Self::from(home.call(["serve", "--listen", "127.0.0.1:0"].iter().chain(flags)), home)
    }

    /// Starts it by a call that was prepared, with `--listen 127.0.0.1:0` in it.
    pub fn from(call: Call, home: &Home) -> Self {
        let process = call.within(PATIENCE).start();
        let socket = home.path().join("coracle.sock");
        let mut tcp = None;
        let listens = eventually(START, || {
            let said = String::from_utf8_lossy(&process.stderr()).into_owned();
            tcp = said
                .lines()
                .find_map(|line| line.strip_prefix("Listening at http://")?.strip_suffix('.')?.parse().ok());
            tcp.is_some() && std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
        let said = String::from_utf8_lossy(&process.stderr()).into_owned();
        assert!(listens.is_some(), "the daemon does not listen: {said}");
        let daemon = Self { process: Some(process), socket, tcp: tcp.expect("it listens") };
        let serves = eventually(START, || {
            Request::get("/readyz").try_send(&daemon.unix()).is_some_and(|answer| answer.status == 200)
        });
        assert!(serves.is_some(), "the daemon is not ready: {said}");
        daemon
    }

    /// Returns the way through the unix socket.
    pub fn unix(&self) -> DaemonAddress {
        DaemonAddress::Unix(self.socket.clone())
    }

    /// Returns the way through TCP.
    pub fn tcp(&self) -> DaemonAddress {
        DaemonAddress::Tcp(self.tcp)
    }

    pub fn address(&self) -> SocketAddr {
        self.tcp
    }

    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Returns what it has said so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.process().stderr()).into_owned()
    }

    /// Ends it as `kill -9` does.
    pub fn kill(mut self) -> Finished {
        self.process.take().expect("it runs").kill()
    }

    /// Tells it to end, and waits until it has.
    pub fn end(mut self) -> Finished {
        let process = self.process.take().expect("it runs");
        process.signal(Signal::TERM);
        process.finish()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.process().signal(signal);
    }

    fn process(&self) -> &Started {
        self.process.as_ref().expect("it runs until it is taken")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }
}
