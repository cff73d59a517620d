//! What ends with this process, however that dies: a command in the foreground, the sandbox of a `run`.

use coracle::{Kind, Result, SandboxId};
use coracle_engine::{Caller, Engine, Leash};

use super::signals::Target;
use super::stderr;

/// Has a command that is about to be started end with this process.
pub fn of_exec(target: &Target) -> Option<Leash> {
    told(target.engine.leash_exec(&target.caller, &target.sandbox, &target.exec))
}

/// Has a sandbox end with this process.
pub fn of_sandbox(engine: &Engine, caller: &Caller, sandbox: &SandboxId) -> Option<Leash> {
    told(engine.leash_sandbox(caller, sandbox))
}

/// Says what the start of the command, which comes next, does not find out and say itself.
fn told(leash: Result<Leash>) -> Option<Leash> {
    let untied = "what is started does not end with this process";
    leash
        .inspect_err(|error| match error.kind {
            Kind::Unsupported => {
                stderr::note(&format!("the sandbox was made by an older coracle: {untied}"));
            }
            Kind::LimitExceeded => stderr::warning(&format!("{}; {untied}", error.chain())),
            _ => {}
        })
        .ok()
}
