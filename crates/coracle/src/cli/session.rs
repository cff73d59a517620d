//! One command with somebody watching: its output passed on, signals and input passed in, its end told.

use std::io;

use coracle::{Error, SandboxId};
use coracle_core::exec::Outcome;
use coracle_engine::exec::Captured;
use coracle_engine::ops::sandbox::exec;
use coracle_engine::progress::Progress;
use coracle_engine::{Caller, Engine, ExecRequest, Stdin};

use super::context::Context;
use super::exit::Exit;
use super::signals::{Caught, Target, Tie};
use super::stop::Stop;
use super::{input, leash, live, stderr, stdout, terminal};

/// Everything that is ready before the command starts. Signals wait from here on.
#[derive(Debug)]
pub struct Session<'a> {
    context: &'a Context,
    engine: Engine,
    caller: Caller,
    caught: Caught,
    tie: Tie,
}

/// A command that has ended.
#[derive(Debug)]
pub enum Ran {
    /// Its output was passed on while it ran.
    Shown(Progress),
    /// Its output is here.
    Captured(Captured),
}

impl Ran {
    pub fn progress(&self) -> &Progress {
        match self {
            Self::Shown(progress) => progress,
            Self::Captured(captured) => &captured.progress,
        }
    }
}

impl<'a> Session<'a> {
    pub fn on(context: &'a Context, engine: Engine, tie: Tie) -> Result<Self, Stop> {
        Ok(Self { context, engine, caller: context.caller()?, caught: Caught::from_now(tie)?, tie })
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    pub fn acting_as(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }

    /// Returns the signal that came before there was a command to pass it on to.
    pub fn signalled(&mut self) -> Option<i32> {
        self.caught.first()
    }

    /// Runs a command to its end and exits as it did.
    pub fn exec(self, sandbox: &SandboxId, request: ExecRequest) -> Result<Exit, Stop> {
        let ran = self.run(sandbox, request)?;
        let exit = Exit::of_progress(ran.progress());
        if let Ran::Captured(captured) = ran {
            stdout::json(&exec::Output::from(captured))?;
        }
        Ok(exit)
    }

    /// Runs a command to its end; with `--json` its output is kept, otherwise it is passed on as it comes.
    pub fn run(self, sandbox: &SandboxId, mut request: ExecRequest) -> Result<Ran, Stop> {
        let exec = match request.exec_id.take() {
            Some(id) => id,
            // Whoever passes signals on has to know the id before the command runs.
            None => self.engine.new_exec_id()?,
        };
        request.exec_id = Some(exec.clone());
        let (json, engine, caller) = (self.context.json, self.engine.clone(), self.caller.clone());
        let target = Target { engine, caller, sandbox: sandbox.clone(), exec };

        let _leash = match self.tie {
            Tie::Client | Tie::Terminal => leash::of_exec(&target)?,
            // The one is to run on, the other goes with its sandbox.
            Tie::Loose | Tie::Bound => None,
        };
        let plain = request.stdin != Stdin::Open && request.terminal.is_none();
        if json && plain {
            self.caught.pass_on(target.clone());
            return Ok(Ran::Captured(target.engine.exec(&target.caller, sandbox, &request)?));
        }
        request.attended = !json;
        let denied = target.engine.denied_so_far(sandbox)?;
        let started = target.engine.exec_start(&target.caller, sandbox, &request)?;
        self.caught.pass_on(target.clone());
        let raw = attend(&target, &request, started.existing)?;
        let ran = match json {
            true => live::collect(&target).map(|mut captured| {
                captured.egress_denied = target.engine.denied_after(sandbox, denied);
                Ran::Captured(captured)
            }),
            false => live::attend(&target).map(Ran::Shown),
        };
        // In raw mode the lines of a note would run down the screen like stairs.
        drop(raw);
        if let Ok(Ran::Shown(progress)) = &ran {
            explain(progress);
            for denial in target.engine.denied_after(sandbox, denied) {
                stderr::note(&format!("the network was denied to {denial}"));
            }
        }
        ran
    }
}

/// Connects the person to a command that wants one. Whoever started it first gives it its input.
fn attend(target: &Target, request: &ExecRequest, existing: bool) -> Result<Option<terminal::Raw>, Stop> {
    if request.stdin != Stdin::Open || existing {
        return Ok(None);
    }
    let raw = match request.terminal {
        Some(_) => Some(terminal::raw().map_err(unusable)?),
        None => None,
    };
    input::pass_on(target.clone());
    Ok(raw)
}

/// Says why a command ended where its exit code alone could be its own.
fn explain(progress: &Progress) {
    match progress.outcome {
        None | Some(Outcome::Exited { .. } | Outcome::Signalled { .. }) => {}
        Some(Outcome::OomKilled | Outcome::TimedOut | Outcome::Stopped | Outcome::Lost) => {
            let why = progress.complaint().unwrap_or_default();
            stderr::note(&format!("the command did not come to its end: {why}"));
        }
    }
}

fn unusable(error: io::Error) -> Error {
    Error::internal("could not prepare the terminal", error)
}
