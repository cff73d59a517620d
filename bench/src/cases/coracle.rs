//! coracle itself, by the library.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use coracle::{Config, Coracle, Sandbox, SpecInput, run};

use super::{LineUp, direct, name};
use crate::case::{Case, Pace, timed};
use crate::workshop::Workshop;

/// What goal P7 calls idle.
const IDLE: Duration = Duration::from_secs(1);
/// What goal P7 calls a dirty disk.
const DIRTY: usize = 300 << 20;

/// Adds every case of the library's.
pub fn add(line_up: &mut LineUp, workshop: &Workshop) {
    match prepare(&workshop.path("home"), &workshop.programs.nothing) {
        Ok((coracle, open)) => add_library(line_up, workshop, &coracle, &open),
        Err(reason) => line_up.is_absent(&["coracle by the library"], &reason),
    }
}

fn add_library(line_up: &mut LineUp, workshop: &Workshop, coracle: &Coracle, open: &Rc<Open>) {
    let run = || {
        let coracle = coracle.clone();
        Box::new(move || one_shot(&coracle))
    };
    let exec = || {
        let open = Rc::clone(open);
        Box::new(move || open.exec())
    };
    let write = {
        let open = Rc::clone(open);
        Box::new(move || Ok(open.sandbox()?.write_file("kibibyte", direct::CONTENTS)?))
    };
    let write_new = {
        let (open, mut number) = (Rc::clone(open), 0);
        Box::new(move || {
            number += 1;
            Ok(open.sandbox()?.write_file(format!("new/{number}"), direct::CONTENTS)?)
        })
    };
    let dirty = || Before::Dirty(workshop.path("dirty"));
    let cases: [(&'static str, Before, Work); 8] = [
        (name::LIBRARY_RUN, Before::Nothing, run()),
        (name::EXEC, Before::Nothing, exec()),
        (name::WRITE, Before::Nothing, write),
        (name::WRITE_NEW, Before::Nothing, write_new),
        (name::EXEC_AFTER_IDLE, Before::Idle, exec()),
        (name::EXEC_WHILE_DIRTY, dirty(), exec()),
        (name::RUN_AFTER_IDLE, Before::Idle, run()),
        (name::RUN_WHILE_DIRTY, dirty(), run()),
    ];
    for (name, before, work) in cases {
        line_up.add(name, Ok(Ours { name, before, work }));
    }
}

/// Opens a home and a sandbox with the program that does nothing in its workspace.
fn prepare(home: &Path, program: &Path) -> Result<(Coracle, Rc<Open>)> {
    let coracle = Coracle::open(Config::at(home))?;
    let sandbox = coracle.create(SpecInput::default())?;
    sandbox.write_file("true", fs::read(program)?)?;
    let made = sandbox.exec(["chmod", "755", "true"])?;
    ensure!(made.progress.exit_code == Some(0), "could not put a program into the sandbox");
    one_shot(&coracle)?;
    Ok((coracle, Rc::new(Open(Some(sandbox)))))
}

/// Makes a sandbox, runs a command in it, and destroys it. The command is the image's own, so it is dynamically linked
/// where the floor's is not.
fn one_shot(coracle: &Coracle) -> Result<()> {
    let ran = coracle.run(run::Input { cmd: Some(vec!["true".to_owned()]), ..run::Input::default() })?;
    ensure!(ran.ok, "`true` did not succeed");
    Ok(())
}

/// A sandbox that is closed when the last case that uses it goes.
struct Open(Option<Sandbox>);

impl Open {
    fn sandbox(&self) -> Result<&Sandbox> {
        self.0.as_ref().context("the sandbox is open until it is dropped")
    }

    fn exec(&self) -> Result<()> {
        let ran = self.sandbox()?.exec(["./true"])?;
        ensure!(ran.progress.exit_code == Some(0), "`true` did not succeed");
        Ok(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.take().map(Sandbox::close) {
            eprintln!("could not close the sandbox of the benchmark: {error}");
        }
    }
}

/// The part that is measured.
type Work = Box<dyn FnMut() -> Result<()>>;

/// What happens to the machine before each sample, off the clock.
enum Before {
    Nothing,
    Idle,
    /// Writes to this file and leaves it to the kernel when that reaches the disk.
    Dirty(PathBuf),
}

struct Ours {
    name: &'static str,
    before: Before,
    work: Work,
}

impl Case for Ours {
    fn name(&self) -> &'static str {
        self.name
    }

    fn paces(&self) -> &'static [Pace] {
        match self.before {
            Before::Nothing => &[Pace::Hot, Pace::Gap],
            Before::Idle | Before::Dirty(_) => &[Pace::Own],
        }
    }

    fn once(&mut self) -> Result<Duration> {
        match &self.before {
            Before::Nothing => timed(&mut self.work),
            Before::Idle => {
                std::thread::sleep(IDLE);
                timed(&mut self.work)
            }
            Before::Dirty(path) => {
                let mut file = File::create(path)?;
                (0..DIRTY >> 20).try_for_each(|_| file.write_all(&[1; 1 << 20]))?;
                let sample = timed(&mut self.work);
                // Removed before it is written back, so that the next case finds the disk at rest.
                fs::remove_file(path)?;
                sample
            }
        }
    }
}
