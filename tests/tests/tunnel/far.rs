//! Another machine and a place for sockets, both of one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_backends::docker::endpoint::{Endpoint, SshPlace};
use coracle_backends::docker::tunnel;
use coracle_core::Result;
use coracle_tests::engines::sshd::Sshd;
use coracle_tests::{SOON, eventually};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

/// The kernel and ssh need a moment to end a process.
const MOMENT: Duration = SOON;

/// What a test connects with.
#[derive(Debug)]
pub struct Far {
    pub sshd: Sshd,
    pub ssh: Vec<String>,
    parent: TempDir,
}

impl Far {
    pub fn new(sshd: Sshd) -> Self {
        let parent = tempfile::tempdir().expect("a directory can be made");
        Self { ssh: sshd.ssh(), sshd, parent }
    }

    /// Opens the way to a socket there.
    pub fn open(&self, socket: &Path) -> Result<PathBuf> {
        self.open_place(&self.sshd.address(socket))
    }

    /// Opens the way to an address such as `ssh://far`.
    pub fn open_place(&self, address: &str) -> Result<PathBuf> {
        tunnel::open(&place(address), &self.ssh, &self.runtime())
    }

    pub fn runtime(&self) -> PathBuf {
        self.parent.path().join("sockets")
    }

    /// Returns the processes of the connections there are, as they were written down.
    pub fn masters(&self) -> Vec<Pid> {
        let rooms = fs::read_dir(self.runtime()).into_iter().flatten().flatten();
        let notes = rooms.filter_map(|room| fs::read_to_string(room.path().join("process")).ok());
        notes
            .filter_map(|note| Pid::from_raw(note.split(' ').next()?.parse().ok()?))
            .filter(|pid| lives(*pid))
            .collect()
    }

    /// Returns the process of the only connection.
    pub fn master(&self) -> Pid {
        let [master] = self.masters()[..] else { panic!("not one master: {:?}", self.masters()) };
        master
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.master(), signal).expect("it lives");
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = tunnel::close_all(&self.runtime());
    }
}

pub fn place(address: &str) -> SshPlace {
    match Endpoint::parse(address).expect("the test writes valid addresses") {
        Endpoint::Ssh(place) => place,
        other => panic!("`{other}` is not reached by ssh"),
    }
}

pub fn lives(process: Pid) -> bool {
    test_kill_process(process).is_ok()
}

/// Waits until a process has ended.
pub fn ends(process: Pid) -> bool {
    eventually(MOMENT, || !lives(process)).is_some()
}
