//! A Python program that does nothing: bare, in a sandbox made for it, and in one made ahead.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use coracle::{Config, Coracle, run};

use super::process::Process;
use super::{LineUp, name};
use crate::case::{Case, timed};
use crate::workshop::Workshop;

/// The machine's own, which is what sandboxes see; another one may come first in the caller's path.
pub const INTERPRETER: &str = "/usr/bin/python3";
const PROGRAM: &str = "pass";

/// Adds all three.
pub fn add(line_up: &mut LineUp, workshop: &Workshop) {
    let mut bare = Command::new(INTERPRETER);
    bare.args(["-c", PROGRAM]);
    line_up.add(name::BARE_PYTHON, Process::new(name::BARE_PYTHON, bare));
    line_up.add(name::PYTHON_RUN, Python::new(name::PYTHON_RUN, workshop, Some(0)));
    line_up.add(name::WARM_PYTHON_RUN, Python::new(name::WARM_PYTHON_RUN, workshop, None));
}

/// One-shots in a home in which nothing else is run, so that all spares have their shape.
struct Python {
    name: &'static str,
    coracle: Coracle,
}

impl Python {
    fn new(name: &'static str, workshop: &Workshop, spares: Option<usize>) -> Result<Self> {
        let home = workshop.path(&format!("home-{}", name.replace(' ', "-")));
        let coracle = Coracle::open(Config { spares, ..Config::at(home) })?;
        let mut case = Self { name, coracle };
        case.once()?;
        Ok(case)
    }
}

impl Case for Python {
    fn name(&self) -> &'static str {
        self.name
    }

    fn once(&mut self) -> Result<Duration> {
        let input = run::Input { code: Some(PROGRAM.to_owned()), ..run::Input::default() };
        timed(|| {
            let ran = self.coracle.run(input)?;
            ensure!(ran.ok, "`{PROGRAM}` did not succeed");
            Ok(())
        })
    }
}
