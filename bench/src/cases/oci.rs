//! An OCI runtime with a bundle written by hand: all namespaces but the user's, no capabilities, a root with two programs.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::LineUp;
use super::apart::{Apart, Namespace};
use crate::case::Pace;
use crate::workshop::Workshop;

const PACES: &[Pace] = &[Pace::Hot, Pace::Gap];

/// A runtime and what is peculiar about it.
pub struct Runtime {
    pub program: &'static str,
    /// The name of the case in which a container is made for each command.
    pub run: &'static str,
    /// The name of the case in which it is there already.
    pub exec: &'static str,
    /// A shell script that prepares its mounts.
    pub preparation: &'static str,
    pub flags: &'static [&'static str],
}

/// Adds both cases.
pub fn add(line_up: &mut LineUp, workshop: &Workshop, runtime: &Runtime) {
    match Namespace::new(runtime.preparation) {
        Ok(namespace) => {
            let bench = Bench { workshop, runtime, namespace };
            line_up.add(runtime.run, bench.run());
            line_up.add(runtime.exec, bench.exec());
        }
        Err(reason) => line_up.is_absent(&[runtime.run, runtime.exec], &reason),
    }
}

/// A runtime in its place.
struct Bench<'a> {
    workshop: &'a Workshop,
    runtime: &'a Runtime,
    namespace: Rc<RefCell<Namespace>>,
}

impl Bench<'_> {
    fn run(&self) -> Result<Apart> {
        let mut command = self.command(&["run", "--bundle"]);
        command.arg(self.bundle("/true")?).arg(self.workshop.unique_name());
        self.case(self.runtime.run, command, None).tried()
    }

    fn exec(&self) -> Result<Apart> {
        let id = format!("{}-open", self.workshop.unique_name());
        let mut start = self.command(&["run", "--detach", "--bundle"]);
        start.arg(self.bundle("/wait")?).arg(&id);
        self.namespace.borrow_mut().prepare(&start)?;
        let at_end = self.command(&["delete", "--force", &id]);
        self.case(self.runtime.exec, self.command(&["exec", &id, "/true"]), Some(at_end)).tried()
    }

    fn case(&self, name: &'static str, command: Command, at_end: Option<Command>) -> Apart {
        Apart { name, paces: PACES, namespace: Rc::clone(&self.namespace), command, at_end }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.runtime.program);
        let state = self.workshop.path(&format!("{}-state", self.runtime.program));
        command.arg("--root").arg(state).args(self.runtime.flags).args(words);
        command
    }

    /// Makes a bundle that starts `program`.
    fn bundle(&self, program: &str) -> Result<PathBuf> {
        let bundle = self.workshop.path(&format!("{}{}", self.runtime.program, program.replace('/', "-")));
        let root = bundle.join("rootfs");
        for directory in ["proc", "dev", "tmp"] {
            std::fs::create_dir_all(root.join(directory))?;
        }
        let programs = &self.workshop.programs;
        std::fs::copy(&programs.nothing, root.join("true")).context("could not fill the bundle")?;
        std::fs::copy(&programs.waiting, root.join("wait")).context("could not fill the bundle")?;
        std::fs::write(bundle.join("config.json"), specification(program).to_string())?;
        Ok(bundle)
    }
}

fn specification(program: &str) -> Value {
    let namespaces = ["pid", "network", "ipc", "uts", "mount"].map(|kind| json!({"type": kind}));
    json!({
        "ociVersion": "1.0.0",
        "process": {"terminal": false, "user": {"uid": 0, "gid": 0}, "args": [program], "env": ["PATH=/"], "cwd": "/",
            "capabilities": {}, "noNewPrivileges": true},
        "root": {"path": "rootfs", "readonly": true},
        "hostname": "bench",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]},
        ],
        "linux": {"namespaces": namespaces},
    })
}
