//! coracle on Docker beside Docker itself: opening, a command, closing. One after the other in each round, so that what
//! the machine does meanwhile meets both.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use coracle::{Config, Coracle, SpecInput};
use coracle_tests::engines::Engine;

use crate::case::{Pace, timed};
use crate::cases::dockerd::MaybeDockerd;
use crate::cases::{complaint, image, name};
use crate::measured::Measured;
use crate::study::Study;
use crate::workshop::Workshop;

pub const NAMES: &[&str] =
    &[name::ENGINE_OPEN, name::ENGINE_EXEC, name::ENGINE_CLOSE, name::DOCKER_START, name::DOCKER_REMOVE];

/// Each takes about a second.
const ROUNDS: usize = 20;
/// Commands in each sandbox; a command takes a thousandth of what opening does.
const COMMANDS: usize = 20;
const CONTAINER: &str = "coracle-bench-side";

pub struct Side {
    home: PathBuf,
    dockerd: Rc<Engine>,
}

impl Side {
    pub fn new(workshop: &Workshop, dockerd: &MaybeDockerd) -> Result<Self> {
        let dockerd = dockerd.as_ref().map_err(|reason| anyhow!("{reason:#}"))?;
        Ok(Self { home: workshop.path("engine-home"), dockerd: Rc::clone(dockerd) })
    }

    /// Opens, runs commands in and closes a sandbox.
    fn ours(&self, coracle: &Coracle, measured: &mut Measured) -> Result<()> {
        let spec = || SpecInput {
            backend: Some("docker".to_owned()),
            image: Some(image::NAME.to_owned()),
            ..SpecInput::default()
        };
        let mut opened = None;
        let took = timed(|| {
            opened = Some(coracle.create(spec())?);
            Ok(())
        });
        note(measured, name::ENGINE_OPEN, took?);
        let Some(sandbox) = opened else { return Ok(()) };
        for _ in 0..COMMANDS {
            let ran = timed(|| {
                let ran = sandbox.exec(["/true"])?;
                ensure!(ran.progress.exit_code == Some(0), "`true` did not succeed");
                Ok(())
            });
            note(measured, name::ENGINE_EXEC, ran?);
        }
        note(measured, name::ENGINE_CLOSE, timed(|| Ok(sandbox.close()?))?);
        Ok(())
    }

    /// Starts and removes a container by Docker's own command line.
    fn theirs(&self, measured: &mut Measured) -> Result<()> {
        let run = ["run", "--detach", "--name", CONTAINER, "--network", "none", image::NAME, "/wait"];
        let timed_run = |words: &[&str]| timed(|| complaint::run(&mut self.dockerd.client(words)).map(drop));
        note(measured, name::DOCKER_START, timed_run(&run)?);
        note(measured, name::DOCKER_REMOVE, timed_run(&["rm", "--force", CONTAINER])?);
        Ok(())
    }
}

fn note(measured: &mut Measured, name: &'static str, took: Duration) {
    measured.add((name, Pace::Own), took);
}

impl Study for Side {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn carry_out(self: Box<Self>, measured: &mut Measured) -> Result<()> {
        let mut config = Config::at(&self.home);
        config.engines.docker_host = Some(self.dockerd.address());
        let coracle = Coracle::open(config)?;
        // The first puts the guest's program there.
        self.ours(&coracle, &mut Measured::default())?;
        for _ in 0..ROUNDS {
            self.ours(&coracle, measured)?;
            self.theirs(measured)?;
        }
        Ok(())
    }
}
