//! `sandbox_close`: destroys a sandbox. Closing one that has ended is fine.

use coracle_core::mount::Source;
use coracle_core::spec::WORKSPACE;
use coracle_core::{Kind, Record, Result, SandboxId, VolumeName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Repeat, Scope, Set};
use crate::{Call, Caller, Engine};

pub const FACTS: Facts = Facts::destroys("sandbox_close", "Destroy a sandbox", "Destroys a sandbox")
    // The volume is removed by its name, which another may have by then.
    .repeats(Repeat::If(|input| input["delete_workspace"] != true))
    .for_models(Model::Fields(&["sandbox_id", "delete_workspace"]))
    .among(Set::Code)
    .within(Scope::Everybody);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    /// Deletes the volume the workspace is on, too. A scratch workspace goes in any case, a host directory never.
    #[serde(default)]
    pub delete_workspace: bool,
    /// Gives up on a sandbox whose engine cannot be asked: its record ends and its session key is free, but what is at
    /// the engine stays there. Only for the home's own people.
    #[serde(default)]
    pub forget: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub ok: bool,
    /// The volume that was deleted with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_volume: Option<VolumeName>,
    /// The sandbox is gone, but its workspace was to be deleted and stays; this says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What is left where nobody answers, because the caller gave up on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let caller = &call.caller;
    let left_behind = match input.forget {
        true => engine.lifecycle().close_or_forget(call, &input.sandbox_id)?,
        false => engine.lifecycle().close(call, &input.sandbox_id).map(|()| Vec::new())?,
    };
    let closed = Output { ok: true, deleted_volume: None, note: None, left_behind };
    match input.delete_workspace {
        true => {
            delete_workspace(engine, caller, &engine.access().find_for(caller, &input.sandbox_id)?, closed)
        }
        false => Ok(closed),
    }
}

/// Deletes the volume the workspace was on. Safe to repeat: the record outlives the sandbox.
fn delete_workspace(engine: &Engine, caller: &Caller, record: &Record, closed: Output) -> Result<Output> {
    let workspace = record.spec.mounts.iter().find(|mount| mount.target == WORKSPACE);
    let name = match workspace.map(|mount| &mount.source) {
        None => return Ok(closed),
        Some(Source::Directory(path)) => {
            let note = format!("`{path}` stays: it is a directory of the machine");
            return Ok(Output { note: Some(note), ..closed });
        }
        Some(Source::Volume(name)) => name,
    };
    if caller.ceiling.as_ref().is_some_and(|ceiling| ceiling.is_of_model()) {
        let note = format!("volume `{name}` stays: the person who started this server mounted it");
        return Ok(Output { note: Some(note), ..closed });
    }
    match engine.access().shelf_of(record)?.remove(name) {
        Ok(()) => Ok(Output { deleted_volume: Some(name.clone()), ..closed }),
        Err(error) if error.kind == Kind::NotFound => Ok(closed),
        Err(error) if error.kind == Kind::Conflict => {
            let note = format!("volume `{name}` stays: {}", error.chain());
            Ok(Output { note: Some(note), ..closed })
        }
        Err(error) => Err(error.detail("sandbox_id", record.id.as_str())),
    }
}
