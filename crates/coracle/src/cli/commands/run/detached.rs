//! `coracle run -d`: opens a sandbox that stays, starts the command in it, and prints the sandbox's id.

use coracle::{ExecId, Result, SandboxId, SpecInput};
use coracle_core::spec::ONE_COMMAND_IDLE;
use coracle_engine::naming::MAIN_EXEC;
use coracle_engine::ops::sandbox::open;
use coracle_engine::{Caller, Engine};

use super::{Plan, open_new, remove};
use crate::cli::commands::exec::Detached;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stop::Stop;
use crate::cli::{missing, refusals, stdout};

/// Returns a sandbox that is gone soon after its command, for `--rm`: it is idle then.
pub fn removed_soon(mut spec: SpecInput) -> SpecInput {
    spec.ttl.get_or_insert_with(|| format!("{}s", ONE_COMMAND_IDLE.as_secs()));
    spec
}

pub fn start(context: &Context, engine: &Engine, wanted: open::Input, mut plan: Plan) -> Result<Exit, Stop> {
    // A new sandbox has an epoch of its own; the caller's is about others.
    let caller = context.caller()?.under(None);
    let opened = open_new(engine, &caller, wanted)?;
    refusals::say(&opened.backend, &opened.refused);
    missing::say_once(&opened.missing, &context.config()?.home);
    let id = opened.sandbox_id;
    let begun = begin(engine, &caller, &id, &mut plan)
        .and_then(|exec| Detached::of(engine, &caller, id.clone(), exec));
    match begun {
        Ok(detached) if context.json => stdout::json(&detached)?,
        Ok(_) => stdout::line(id.as_str())?,
        Err(error) => {
            remove(engine, &caller, &id);
            return Err(error.into());
        }
    }
    Ok(Exit::SUCCESS)
}

fn begin(engine: &Engine, caller: &Caller, sandbox: &SandboxId, plan: &mut Plan) -> Result<ExecId> {
    plan.prepare(engine, caller, sandbox)?;
    let request = &mut plan.request;
    request.exec_id = Some(MAIN_EXEC.parse()?);
    request.timeout = request.timeout.in_background();
    Ok(engine.exec_start(caller, sandbox, request)?.exec_id)
}
