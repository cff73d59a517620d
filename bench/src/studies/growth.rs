//! What operations cost in a crowd of idle sandboxes and ended rows, beside what they cost alone.
//!
//! A crowd loads the whole machine, so the two cannot take turns. Alone is measured before the crowd comes and again
//! after it has gone, so that a machine that slows down or speeds up meanwhile does so for both.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use coracle::{Config, Coracle, Sandbox, SandboxId, SpecInput, run};
use coracle_core::spec::Storage;
use coracle_core::{Store, Timestamp};
use coracle_stores::SqliteStore;

use super::crowd::Crowd;
use crate::arguments::Scale;
use crate::case::{Pace, timed};
use crate::cases::name;
use crate::measured::Measured;
use crate::study::Study;
use crate::workshop::Workshop;

pub const NAMES: &[&str] = &[
    name::ALONE_RUN,
    name::ALONE_EXEC,
    name::ALONE_OPEN,
    name::ALONE_SHOW,
    name::CROWDED_RUN,
    name::CROWDED_EXEC,
    name::CROWDED_OPEN,
    name::CROWDED_SHOW,
];
const ALONE: [&str; 4] = [name::ALONE_RUN, name::ALONE_EXEC, name::ALONE_OPEN, name::ALONE_SHOW];
const CROWDED: [&str; 4] = [name::CROWDED_RUN, name::CROWDED_EXEC, name::CROWDED_OPEN, name::CROWDED_SHOW];
/// Of each operation before the crowd, in it twice as many, and after it.
const SAMPLES: usize = 20;
/// Operations before the first timed one: spares are made, caches fill.
const WARM_UP: usize = 3;

pub struct Growth {
    directory: PathBuf,
    sandboxes: usize,
    rows: usize,
}

impl Growth {
    pub fn new(workshop: &Workshop) -> Self {
        let (sandboxes, rows) = match workshop.scale {
            Scale::Ordinary => (200, 10_000),
            Scale::Full => (1000, 100_000),
        };
        Self { directory: workshop.path("growth"), sandboxes, rows }
    }
}

impl Study for Growth {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn carry_out(self: Box<Self>, measured: &mut Measured) -> Result<()> {
        measure(&self.directory.join("before"), ALONE, SAMPLES, measured)?;
        self.in_a_crowd(measured)?;
        measure(&self.directory.join("after"), ALONE, SAMPLES, measured)
    }
}

impl Growth {
    fn in_a_crowd(&self, measured: &mut Measured) -> Result<()> {
        let home = self.directory.join("crowd");
        let coracle = Coracle::open(Config { spares: Some(0), ..Config::at(&home) })?;
        let spec = SpecInput { storage: Some(Storage::Memory), ..SpecInput::default() };
        let crowd = Crowd::gather(&coracle, self.sandboxes, &spec)?;
        plant(&home, &crowd.ids[0], self.rows)?;
        measure(&home, CROWDED, 2 * SAMPLES, measured)
    }
}

/// Puts rows of sandboxes that have ended into the store of a home, made after the row of one that is there.
fn plant(home: &std::path::Path, model: &SandboxId, number: usize) -> Result<()> {
    let store = SqliteStore::open(home)?;
    let mut record = store.find(model)?.context("the model has a row")?;
    record.state = coracle_core::State::Destroyed;
    record.key = None;
    for index in 0..number {
        // Older than what lives, but not old enough to be forgotten.
        let at = Timestamp::from_millis(record.created_at.as_millis() - 1);
        let mut random = [0; 10];
        random[..8].copy_from_slice(&index.to_be_bytes());
        record.id = SandboxId::generate(at, random);
        store.open(record.clone())?;
    }
    Ok(())
}

/// Times the four operations, taking turns, in a home with one sandbox more.
fn measure(
    home: &std::path::Path,
    names: [&'static str; 4],
    samples: usize,
    measured: &mut Measured,
) -> Result<()> {
    let coracle = Coracle::open(Config::at(home))?;
    let sandbox = coracle.create(SpecInput::default())?;
    let done = (0..samples + WARM_UP).try_for_each(|round| -> Result<()> {
        let took = [
            timed(|| one_shot(&coracle))?,
            timed(|| exec(&sandbox))?,
            timed(|| Ok(coracle.create(SpecInput::default())?.close()?))?,
            timed(|| Ok(sandbox.show()?))?,
        ];
        if round >= WARM_UP {
            names.into_iter().zip(took).for_each(|(name, took)| measured.add((name, Pace::Own), took));
        }
        Ok(())
    });
    sandbox.close()?;
    done
}

fn one_shot(coracle: &Coracle) -> Result<()> {
    let ran = coracle.run(run::Input { cmd: Some(vec!["true".to_owned()]), ..run::Input::default() })?;
    ensure!(ran.ok, "`true` did not succeed");
    Ok(())
}

fn exec(sandbox: &Sandbox) -> Result<()> {
    let ran = sandbox.exec(["true"])?;
    ensure!(ran.progress.exit_code == Some(0), "`true` did not succeed");
    Ok(())
}
