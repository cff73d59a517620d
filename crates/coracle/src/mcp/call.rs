//! One call of a tool: the operation on a thread of its own, signs of life while it takes long, and its end when the
//! client no longer wants it.

use std::sync::Arc;
use std::time::Duration;

use coracle_core::{Error, Kind, Result};
use coracle_engine::exec::checked_wait;
use coracle_engine::ops::{self, sandbox};
use coracle_engine::{Caller, Engine};
use serde_json::{Value, json};

use super::calls::Interest;
use super::cancel::Target;
use super::opened::Opened;
use super::progress::Beats;
use crate::telemetry;

/// How long a wait goes without looking whether anybody still waits.
const SLICE: Duration = Duration::from_millis(500);

/// What is to be done, and for whom.
#[derive(Debug, Clone)]
pub struct Call {
    pub engine: Engine,
    pub caller: Caller,
    pub operation: &'static str,
    pub input: Value,
    pub interest: Interest,
    /// Learns what was opened, even if nobody waits for the answer any more.
    pub opened: Opened,
}

impl Call {
    /// Carries it out. If nobody wants the answer any more, what it started is stopped before this returns.
    pub async fn carry_out(mut self, beats: Option<Beats>) -> Result<Value> {
        self.name_exec()?;
        let target = Arc::new(Target::of(&self));
        let mut work = {
            let (call, target) = (self.clone(), Arc::clone(&target));
            let (operation, opened) = (self.operation, self.opened.clone());
            tokio::task::spawn_blocking(telemetry::carried(move || {
                call.work(&target).inspect(|output| opened.learn(operation, output))
            }))
        };
        let ended = tokio::select! {
            ended = &mut work => Some(ended),
            () = self.interest.lost() => None,
            () = Beats::send(beats, Arc::clone(&target)) => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                target.stop_until_ended(&mut work).await;
                return Err(Error::new(Kind::Aborted, "the call was cancelled"));
            }
        };
        ended.map_err(|error| {
            Error::internal(format!("`{}` did not come to its end", self.operation), error)
        })?
    }

    /// Gives a command a name beforehand: it could not be stopped by one nobody has heard of yet.
    fn name_exec(&mut self) -> Result<()> {
        if self.operation == "sandbox_exec" && self.input["exec_id"].is_null() && self.input.is_object() {
            self.input["exec_id"] = json!(self.engine.new_exec_id()?);
        }
        Ok(())
    }

    fn work(self, target: &Target) -> Result<Value> {
        let (engine, caller, operation) = (self.engine.clone(), self.caller.clone(), self.operation);
        match operation {
            "sandbox_run" => engine.performing(&caller, operation, || self.run(target)),
            "sandbox_exec_wait" => engine.performing(&caller, operation, || self.wait()),
            _ => self.engine.call(&self.caller, self.operation, self.input),
        }
    }

    /// Runs a program, and says where before it does: the sandbox has to go if the call does.
    fn run(self, target: &Target) -> Result<Value> {
        let input = ops::read(self.operation, self.input)?;
        let placed = |sandbox: &_| {
            target.place(sandbox);
            match self.interest.is_lost() {
                true => Err(Error::new(Kind::Aborted, "the call was cancelled")),
                false => Ok(()),
            }
        };
        ops::written(self.operation, &sandbox::run::call_where(&self.engine, &self.caller, input, &placed)?)
    }

    /// Waits in slices, so that a wait nobody wants any more does not hold its thread.
    fn wait(self) -> Result<Value> {
        let input: sandbox::exec_wait::Input = ops::read(self.operation, self.input)?;
        let mut left = checked_wait(input.timeout_seconds, input.timeout_ms, self.engine.policy())?;
        loop {
            let slice = left.map_or(SLICE, |left| left.min(SLICE));
            let ms = u64::try_from(slice.as_millis()).unwrap_or(u64::MAX).max(1);
            let input =
                sandbox::exec_wait::Input { timeout_seconds: None, timeout_ms: Some(ms), ..input.clone() };
            let waited = sandbox::exec_wait::call(&self.engine, &self.caller, input)?;
            left = left.map(|left| left.saturating_sub(slice));
            let over = left.is_some_and(|left| left.is_zero());
            if waited.done || over || self.interest.is_lost() {
                return ops::written(self.operation, &waited);
            }
        }
    }
}
