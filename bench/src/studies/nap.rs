//! Waking a sandbox in place, beside opening a new one: with ten files and with ten thousand.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use coracle::{Config, Coracle};
use serde_json::{Value, json};

use crate::case::{Pace, timed};
use crate::cases::name;
use crate::measured::Measured;
use crate::study::Study;
use crate::workshop::Workshop;

pub const NAMES: &[&str] = &[name::NAP_OPEN, name::WAKE_FEW, name::WAKE_MANY];
const SAMPLES: usize = 9;
/// How long a sandbox may be idle before it sleeps, and how often that is looked for.
const IDLE_SECONDS: u64 = 1;
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const ASLEEP_BY: Duration = Duration::from_secs(60);

pub struct Nap {
    coracle: Coracle,
}

impl Nap {
    pub fn new(workshop: &Workshop) -> Result<Self> {
        let coracle = Coracle::open(Config { spares: Some(0), ..Config::at(workshop.path("home-nap")) })?;
        Ok(Self { coracle })
    }
}

impl Study for Nap {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn carry_out(self: Box<Self>, measured: &mut Measured) -> Result<()> {
        for (key, files, case) in [("few", 10, name::WAKE_FEW), ("many", 10_000, name::WAKE_MANY)] {
            let sandbox = self.open(key)?;
            self.plant(&sandbox, files)?;
            for _ in 0..SAMPLES {
                self.wait_until_asleep(&sandbox)?;
                let woken = timed(|| self.open(key).map(drop))?;
                measured.add((case, Pace::Own), woken);
                // In turns, so that both see the same machine.
                let mut fresh = Value::Null;
                let opened = timed(|| {
                    fresh = self.open("fresh")?;
                    Ok(())
                })?;
                measured.add((name::NAP_OPEN, Pace::Own), opened);
                self.coracle.call("sandbox_close", json!({"sandbox_id": fresh}))?;
            }
            self.coracle.call("sandbox_close", json!({"sandbox_id": sandbox}))?;
        }
        Ok(())
    }
}

impl Nap {
    fn open(&self, key: &str) -> Result<Value> {
        let limits = json!({"timeout_seconds": IDLE_SECONDS});
        let input = json!({"session_key": key, "on_idle": "hibernate", "limits": limits});
        Ok(self.coracle.call("sandbox_open", input)?["sandbox_id"].clone())
    }

    fn plant(&self, sandbox: &Value, files: usize) -> Result<()> {
        let script = format!("mkdir tree; for n in $(seq {files}); do echo $n > tree/$n; done");
        let input = json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", script]});
        let planted = self.coracle.call("sandbox_exec", input)?;
        ensure!(planted["exit_code"] == 0, "could not fill the workspace: {planted}");
        Ok(())
    }

    fn wait_until_asleep(&self, sandbox: &Value) -> Result<()> {
        let began = Instant::now();
        loop {
            self.coracle.engine().upkeep().sweep()?;
            let listed = self.coracle.list()?;
            let found = listed.iter().find(|one| sandbox.as_str() == Some(one.sandbox_id.as_str()));
            if found.is_some_and(|found| found.kept.is_some()) {
                return Ok(());
            }
            ensure!(began.elapsed() < ASLEEP_BY, "the sandbox does not fall asleep");
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}
