//! How many sandboxes a second can be made, used and destroyed, by several threads at once.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use coracle::{Config, Coracle, run};

use crate::cases::name;
use crate::measured::{Measured, Unit};
use crate::study::Study;
use crate::workshop::Workshop;

pub const NAMES: &[&str] = &[name::CHURN];
/// Long enough that the first spares do not count.
const LASTS: Duration = Duration::from_secs(3);
/// As many as keep two CPUs busy although each of them waits at times.
const THREADS: usize = 4;

pub struct Churn {
    home: PathBuf,
}

impl Churn {
    pub fn new(workshop: &Workshop) -> Self {
        Self { home: workshop.path("home-churn") }
    }
}

impl Study for Churn {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn carry_out(self: Box<Self>, measured: &mut Measured) -> Result<()> {
        let coracle = Coracle::open(Config::at(&self.home))?;
        one_shot(&coracle)?;
        let (done, started) = (AtomicUsize::new(0), Instant::now());
        std::thread::scope(|scope| {
            let work = || -> Result<()> {
                while started.elapsed() < LASTS {
                    one_shot(&coracle)?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("the work does not panic"))
        })?;
        // The last ones are removed when the home is closed; until then they are not destroyed.
        drop(coracle);
        let rate = done.into_inner() as f64 / started.elapsed().as_secs_f64();
        measured.note(name::CHURN, rate, Unit::PerSecond);
        Ok(())
    }
}

fn one_shot(coracle: &Coracle) -> Result<()> {
    let ran = coracle.run(run::Input { cmd: Some(vec!["true".to_owned()]), ..run::Input::default() })?;
    ensure!(ran.ok, "`true` did not succeed");
    Ok(())
}
