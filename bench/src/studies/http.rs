//! Commands over HTTP beside commands of the library, in one sandbox, in turns; then many clients at once.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use coracle::{Config, Coracle, SpecInput};
use coracle_tests::http::{Line, Request};
use coracle_tests::load::{self, Load};
use coracle_tests::{Daemon, Home};
use serde_json::json;

use crate::arguments::Scale;
use crate::case::{Pace, timed};
use crate::cases::name;
use crate::measured::{Measured, Unit};
use crate::study::Study;
use crate::workshop::Workshop;

pub const NAMES: &[&str] = &[
    name::HTTP_EXEC,
    name::HTTP_BESIDE,
    name::LOADED_HTTP_EXEC,
    name::LOADED_HTTP_P99,
    name::LOADED_EXEC,
    name::LOADED_P99,
    name::LOADED_REQUESTS,
];

const ROUNDS: usize = 400;
const CLIENTS: usize = 200;
/// Sandboxes those clients share: more than a machine of this size has cores, fewer than would be a study of opening.
const SANDBOXES: usize = 20;

pub struct Http {
    time: Duration,
}

impl Http {
    pub fn new(workshop: &Workshop) -> Self {
        let seconds = match workshop.scale {
            Scale::Ordinary => 10,
            Scale::Full => 60,
        };
        Self { time: Duration::from_secs(seconds) }
    }
}

impl Study for Http {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn carry_out(self: Box<Self>, measured: &mut Measured) -> Result<()> {
        let home = Home::new();
        let daemon = Daemon::start(&home);
        let coracle = Coracle::open(Config::at(home.path()))?;
        in_turns(&coracle, &daemon, measured)?;
        let sandboxes: Vec<_> = (0..SANDBOXES).map(|_| home.open()).collect();
        let load = load::put_on(&daemon.unix(), &sandboxes, CLIENTS, self.time);
        ensure!(load.failures.is_empty(), "requests failed: {:?}", load.failures);
        measured.note(name::LOADED_REQUESTS, load.requests as f64 / self.time.as_secs_f64(), Unit::PerSecond);
        note(measured, name::LOADED_HTTP_EXEC, name::LOADED_HTTP_P99, &load);
        let mut execs = direct(&coracle, &sandboxes, self.time / 4)?;
        execs.sort_unstable();
        note(measured, name::LOADED_EXEC, name::LOADED_P99, &Load { execs, ..Load::default() });
        Ok(())
    }
}

fn note(measured: &mut Measured, case: &'static str, slowest: &'static str, load: &Load) {
    load.execs.iter().for_each(|took| measured.add((case, Pace::Own), *took));
    measured.note(slowest, load.quantile(0.99).as_secs_f64() * 1e3, Unit::Milliseconds);
}

fn in_turns(coracle: &Coracle, daemon: &Daemon, measured: &mut Measured) -> Result<()> {
    let sandbox = coracle.create(SpecInput::default())?;
    let request = Request::post(&format!("/v1/sandboxes/{}/execs", sandbox.id()), &json!({"cmd": ["true"]}));
    let mut line = Line::open(&daemon.unix())?;
    for _ in 0..ROUNDS {
        let over_http = timed(|| {
            let answer = line.send(&request)?;
            ensure!(answer.status == 200, "{answer}");
            Ok(())
        })?;
        measured.add((name::HTTP_EXEC, Pace::Own), over_http);
        let direct = timed(|| {
            sandbox.exec(["true"])?;
            Ok(())
        })?;
        measured.add((name::HTTP_BESIDE, Pace::Own), direct);
    }
    Ok(sandbox.close()?)
}

/// Has as many threads run commands by the library for a while.
fn direct(coracle: &Coracle, sandboxes: &[String], time: Duration) -> Result<Vec<Duration>> {
    let end = Instant::now() + time;
    let work = |sandbox: &str| -> Result<Vec<Duration>> {
        let mut took = Vec::new();
        while Instant::now() < end {
            let input = json!({"sandbox_id": sandbox, "cmd": ["true"]});
            let ran = timed(|| {
                coracle.call("sandbox_exec", input)?;
                Ok(())
            });
            took.push(ran?);
        }
        Ok(took)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || work(&sandboxes[number % sandboxes.len()])))
            .collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().ok().context("a thread panicked")??);
        }
        Ok(all)
    })
}
