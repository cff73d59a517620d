//! A machine in an internet with a registry, and projects that need a package of it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use coracle_tests::{Call, Home, Internet};
use serde_json::Value;
use tempfile::TempDir;

/// Package managers on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// What every project's package says.
pub const NPM_PROOF: (&str, &str) = ("node -e 'console.log(require(\"small\"))'", "from a registry\n");

#[derive(Debug)]
pub struct Site {
    pub home: Home,
    pub net: Internet,
    files: TempDir,
}

impl Site {
    /// Has program texts for Python write the files of a registry, and publishes them as `ok.test`. Fillers for these package
    /// managers may reach it.
    pub fn new(programs: &[&str], settings: &str) -> Self {
        let files = tempfile::tempdir().expect("a directory can be made");
        for program in programs {
            let made =
                Command::new("/usr/bin/python3").args(["-c", program]).current_dir(files.path()).output();
            let made = made.expect("a program of the tests can be started");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        let net = Internet::new();
        net.web.publish(files.path());
        let home = net.home();
        std::fs::write(home.path().join("config.toml"), settings).expect("a home can be written");
        Self { home, net, files }
    }

    /// Returns a site with npm's registry.
    pub fn npm() -> Self {
        Self::new(
            &[include_str!("../programs/registries/npm.py")],
            "[install.network]\nnpm = \"allow=ok.test\"\n",
        )
    }

    /// Returns a copy of a directory that a program has written.
    pub fn project(&self, of: &str) -> TempDir {
        let copy = tempfile::tempdir().expect("a directory can be made");
        let copied =
            Command::new("cp").arg("-a").arg(self.files.path().join(of).join(".")).arg(copy.path()).status();
        assert!(copied.expect("cp can be started").success());
        copy
    }

    /// Prepares to open a sandbox with its own changes to a project, and to install what that needs.
    pub fn opening(&self, project: &Path, flags: &[&str]) -> Call {
        let workspace = format!("{}:overlay", project.display());
        let words = ["open", "--json", "--workspace", &workspace, "--install", "auto"];
        self.home.call(words.iter().chain(flags)).within(PATIENCE)
    }

    /// Opens one; returns its id and what became of installing.
    #[track_caller]
    pub fn open(&self, project: &Path, flags: &[&str]) -> (String, Value) {
        let opened = self.opening(project, flags).succeed().json();
        let sandbox = opened["sandbox_id"].as_str().expect("an open sandbox has an id").to_owned();
        (sandbox, opened["install"].clone())
    }

    /// Runs a shell's script in a sandbox and returns what it printed.
    #[track_caller]
    pub fn sh(&self, sandbox: &str, script: &str) -> String {
        self.home.exec(sandbox, ["sh", "-ec", script]).within(PATIENCE).succeed().text().to_owned()
    }

    /// Makes an image of the machine's own programs and more, each at a path.
    pub fn image(&self, programs: &[(&Path, &str)]) -> String {
        let sandbox = self.home.open();
        for (from, to) in programs {
            let from = from.to_string_lossy();
            self.home.call(["cp", &from, &format!("{sandbox}:{to}")]).within(PATIENCE).succeed();
        }
        let image =
            self.home.call(["snapshot", &sandbox]).within(PATIENCE).succeed().text().trim().to_owned();
        self.home.call(["close", &sandbox]).succeed();
        image
    }

    /// Opens a project twice: the first time it is fetched, the second time nothing is asked of anybody. Returns the second
    /// sandbox.
    #[track_caller]
    pub fn expect_fetched_once(&self, project: &Path, flags: &[&str], (proof, says): (&str, &str)) -> String {
        let (first, installed) = self.open(project, flags);
        assert_eq!(installed["status"], "done", "{installed:#}");
        assert!(!self.net.web.visits().is_empty(), "it was fetched from somewhere else");
        assert_eq!(self.sh(&first, proof), says);
        self.net.forget_when_quiet();

        let (second, again) = self.open(project, flags);

        assert_eq!(again, installed);
        assert_eq!(self.net.strays(&[]), [""; 0]);
        assert_eq!(self.sh(&second, proof), says);
        let log = self.home.call(["logs", &second, "install"]).run();
        assert_eq!(log.code(), Some(0), "the output of `install` can be read: {log}");
        second
    }
}
