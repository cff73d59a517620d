//! Registries of the tests' own: directories of files, made by a program text and published in the test's internet.

use std::process::Command;

use coracle_tests::{Home, Internet};
use tempfile::TempDir;

/// A sandbox on a machine in an internet with one registry, and the way to it.
#[derive(Debug)]
pub struct Workplace {
    pub home: Home,
    pub sandbox: String,
    _files: TempDir,
    _net: Internet,
}

impl Workplace {
    /// Has a program text for Python write the files of a registry, and opens a sandbox that reaches it by the name
    /// `ok.test`, with more flags.
    pub fn new(registry: &str, arguments: &[&str], flags: &[&str]) -> Self {
        Self::prepared(registry, arguments, flags, |_| {})
    }

    /// The same, with something done to the home before the sandbox is opened.
    pub fn prepared(registry: &str, arguments: &[&str], flags: &[&str], prepare: impl FnOnce(&Home)) -> Self {
        let files = tempfile::tempdir().expect("a directory can be made");
        let mut command = Command::new("/usr/bin/python3");
        let made = command.args(["-c", registry]).args(arguments).current_dir(files.path()).output();
        let made = made.expect("a program of the tests can be started");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let net = Internet::new();
        net.web.publish(files.path());
        let home = net.home();
        prepare(&home);
        let sandbox = home.open_with(&[&["--network", "allow=ok.test"], flags].concat());
        Self { home, sandbox, _files: files, _net: net }
    }

    /// Runs a shell's script in the sandbox and returns what it printed.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        let ran = self.home.exec(&self.sandbox, ["sh", "-ec", script]).within(super::PATIENCE).succeed();
        ran.text().to_owned()
    }
}
