//! The internet, in a network namespace: servers, names, and a capture that sees every packet the machine sends there.
//!
//! The machine is another namespace, in which coracle and what it keeps running are started. It has no way to the real
//! network. It reaches addresses that no sandbox may reach like all others, so that a leak is
//! seen, and answered. Both namespaces are held by processes of the test alone and are gone with it, crash or not.

mod capture;
mod frame;
mod message;
mod names;
mod namespace;
mod request;
mod server;
mod site;
mod talk;
mod tls;
pub mod trap;
mod web;
pub mod wires;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::NamedTempFile;

pub use capture::Capture;
pub use frame::Packet;
pub use names::{Names, TEXT};
pub use namespace::Namespace;
pub use request::Request;
pub use server::Server;
pub use site::Site;
pub use talk::{BANNER, Talk};
pub use trap::Trap;
pub use web::{CREDENTIALS, Visit, Web};

use crate::engines::Engine;
use crate::{Breaches, Home, SOON};

/// A client that was silent for this long sends nothing more.
const QUIET: Duration = Duration::from_millis(300);
/// How often threads look whether they are to end.
const TICK: Duration = Duration::from_millis(20);
/// How long anything here is waited for.
const PATIENCE: Duration = SOON;

/// An internet of one test's own.
#[derive(Debug)]
pub struct Internet {
    pub names: Names,
    pub web: Web,
    pub talk: Talk,
    capture: Capture,
    /// The machine coracle runs on.
    pub machine: Namespace,
    /// Everything else.
    pub outside: Namespace,
    _resolver: NamedTempFile,
    _alone: Option<MutexGuard<'static, ()>>,
}

impl Default for Internet {
    fn default() -> Self {
        Self::new()
    }
}

impl Internet {
    pub fn new() -> Self {
        Self::around(None, |names| Namespace::new(Some(names)))
    }

    /// Makes one whose machine has the network of a container engine: containers of that engine are in this internet.
    /// There is one at a time.
    pub fn of_engine(engine: &Engine) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Self::around(Some(alone), |names| {
            let machine = Namespace::of_process(engine.process(), Some(names));
            // The kernel takes its time to remove the wire of the one before.
            let _ = machine.command(&["ip", "link", "delete", "eth0"]).output();
            machine
        })
    }

    fn around(alone: Option<MutexGuard<'static, ()>>, machine: impl FnOnce(&Path) -> Namespace) -> Self {
        let mut resolver = NamedTempFile::new().expect("a file can be made");
        // The resolver makes one attempt, so that queries can be counted.
        writeln!(resolver, "nameserver {}\noptions timeout:5 attempts:1", wires::NAME_SERVER)
            .expect("a file can be written");
        let everybody = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(resolver.path(), everybody).expect("it is ours");
        let (machine, outside) = (machine(resolver.path()), Namespace::new(None));
        wires::lay(&machine, &outside);
        Self {
            names: Names::start(&outside),
            web: Web::start(&outside),
            talk: Talk::start(&outside),
            capture: Capture::start(&outside),
            machine,
            outside,
            _resolver: resolver,
            _alone: alone,
        }
    }

    /// Makes a home whose calls are made on the machine of this internet.
    pub fn home(&self) -> Home {
        Home::new().inside(&self.door())
    }

    /// Makes the same for an ordinary user.
    pub fn ordinary_home(&self) -> Home {
        Home::ordinary().inside(&self.door())
    }

    /// Returns the words a program is started through to run on the machine of this internet.
    pub fn door(&self) -> Vec<String> {
        self.machine.door()
    }

    /// Runs a program on the machine, outside of any sandbox.
    pub fn run(&self, words: &[&str]) -> Output {
        self.machine.command(words).output().expect("a program can be started")
    }

    /// Returns every packet the machine has sent.
    pub fn packets(&self) -> Vec<Packet> {
        self.capture.packets(&self.machine)
    }

    /// Returns in words what the machine has sent to others than these, each kind once. Questions to the name server
    /// count like everything else, unless its address is among these.
    pub fn strays(&self, allowed: &[&str]) -> Breaches {
        let allowed: Vec<IpAddr> = allowed.iter().map(|text| wires::address(text)).collect();
        let is_stray = |packet: &&Packet| match packet {
            Packet::Port { to, .. } | Packet::Plain { to, .. } => !allowed.contains(to),
            Packet::Link { .. } => true,
        };
        let strays: BTreeSet<String> =
            self.packets().iter().filter(is_stray).map(Packet::to_string).collect();
        strays.into_iter().map(|stray| format!("sent {stray}")).collect()
    }

    /// Returns in words which names were asked for besides these, each once.
    pub fn curiosity(&self, allowed: &[&str]) -> Breaches {
        let asked: BTreeSet<String> = self.names.asked().into_iter().collect();
        let others = asked.into_iter().filter(|name| !allowed.contains(&name.as_str()));
        others.map(|name| format!("asked for `{name}`")).collect()
    }

    /// Forgets everything that has happened, once nothing more happens: connections that were cut send their last packets
    /// first.
    pub fn forget_when_quiet(&self) {
        let mut seen = 0;
        while self.packets().len() != seen {
            seen = self.packets().len();
            std::thread::sleep(QUIET);
        }
        self.forget();
    }

    /// Forgets everything that has happened.
    pub fn forget(&self) {
        self.capture.clear(&self.machine);
        self.names.clear();
        self.web.clear();
    }
}
