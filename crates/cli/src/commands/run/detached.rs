//! `coracle run -d`: opens a sandbox that stays, starts the command in it, and prints the sandbox's id.

use std::sync::Arc;

use coracle::{ExecId, Result, SpecInput};
use coracle_core::Home;
use coracle_core::image::Step;
use coracle_core::spec::{ONE_COMMAND_IDLE, OnIdle};
use coracle_engine::call::Placed;
use coracle_engine::naming::MAIN_EXEC;
use coracle_engine::{Engine, Observer, OneCommand};

use crate::commands::exec::Detached;
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{missing_walls, refusals, stdout};

/// Returns a sandbox that ends soon after its command, for `--rm`: it is idle then.
pub fn removed_soon(mut spec: SpecInput) -> SpecInput {
    spec.on_idle.get_or_insert(OnIdle::Destroy);
    spec.ttl.get_or_insert_with(|| format!("{}s", ONE_COMMAND_IDLE.as_secs()));
    spec
}

pub fn start(context: &Context, engine: &Engine, mut command: OneCommand) -> Result<Exit, Stop> {
    let exec: ExecId = MAIN_EXEC.parse()?;
    command.request.exec_id = Some(exec.clone());
    command.request.timeout = command.request.timeout.in_background();
    let call = context.call()?;
    let observer = Arc::new(Placing { bars: call.observer.clone(), home: context.config()?.home.clone() });
    // A new sandbox has its own epoch; the caller's is about another one.
    let call = call.on_behalf_of(call.caller.under(None)).watched_by(observer);
    let id = engine.lifecycle().run_detached(&call, command)?;
    let name = id.clone();
    let printed = match context.json {
        true => stdout::json(&Detached::of(engine, &call.caller, id, exec)?),
        false => stdout::line(id.as_str()),
    };
    stdout::or_name(printed, "sandbox", [name])?;
    Ok(Exit::SUCCESS)
}

/// Tells a person which backend the command runs on.
struct Placing {
    bars: Arc<dyn Observer>,
    home: Home,
}

impl Observer for Placing {
    fn step(&self, step: &Step) {
        self.bars.step(step);
    }

    fn placed(&self, sandbox: &Placed<'_>) -> Result<()> {
        refusals::say(sandbox.backend, sandbox.refused);
        missing_walls::say_once(sandbox.missing, &self.home);
        Ok(())
    }
}
