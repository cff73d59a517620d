//! A command over HTTP, with its output in the answer and as a stream. Everything is done through the binary, so that a build of
//! another revision can be measured by the same program.

use anyhow::{Context, Result, ensure};
use coracle_tests::http::{DaemonAddress, Line, Request};
use coracle_tests::{Daemon, Home};
use serde_json::json;

use crate::case::{Pace, timed};
use crate::cases::name;
use crate::measured::Measured;
use crate::study::Study;

pub const NAMES: &[&str] = &[name::DOOR_EXEC, name::DOOR_STREAM];

const ROUNDS: usize = 200;

pub struct Door;

impl Study for Door {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn carry_out(self: Box<Self>, measured: &mut Measured) -> Result<()> {
        let home = Home::new();
        let daemon = Daemon::start(&home);
        let address = daemon.unix();
        let execs = format!("/v1/sandboxes/{}/execs", home.open());
        let captured = Request::post(&execs, &json!({"cmd": ["true"]}));
        let mut line = Line::open(&address)?;
        for round in 0..ROUNDS {
            let exec = timed(|| {
                let answer = line.send(&captured)?;
                ensure!(answer.status == 200, "{answer}");
                Ok(())
            })?;
            measured.add((name::DOOR_EXEC, Pace::Hot), exec);
            let streamed = timed(|| stream(&address, &mut line, &execs, &format!("round-{round}")))?;
            measured.add((name::DOOR_STREAM, Pace::Hot), streamed);
        }
        Ok(())
    }
}

/// Starts a command and reads its output to the end.
fn stream(address: &DaemonAddress, line: &mut Line, execs: &str, exec: &str) -> Result<()> {
    let start = json!({"cmd": ["echo", "line"], "stream": true, "exec_id": exec});
    let answer = line.send(&Request::post(execs, &start))?;
    ensure!(answer.status == 200, "{answer}");
    let mut output = Request::get(&format!("{execs}/{exec}/stream?since_seq=0")).open(address)?;
    while output.event().context("the stream broke off")?.name != "end" {}
    Ok(())
}
