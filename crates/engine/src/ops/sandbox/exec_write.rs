//! `sandbox_exec_write`: writes to the standard input of a running exec.

use std::time::Duration;

use coracle_core::{Error, ExecId, Result, SandboxId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Reach, Scope, Set};
use crate::exec::cancel::cut_at_cancel;
use crate::{Call, Engine, text};

/// What one message to the guest carries.
const PIECE_LEN: usize = 1 << 20;
/// How long a command may leave its input unread where it has no deadline.
const WAIT_MAX: Duration = Duration::from_secs(4 * 3600);

pub const FACTS: Facts = Facts::destroys(
    "sandbox_exec_write",
    "Write to a command",
    "Writes to the standard input of a running command",
)
.reaching(Reach::World)
.among(Set::Processes)
.within(Scope::Everybody)
.waking()
.for_models(Model::AllFields);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    pub exec_id: ExecId,
    #[serde(default)]
    pub data: Option<String>,
    #[serde(default)]
    pub data_b64: Option<String>,
    /// Closes standard input behind the data.
    #[serde(default)]
    pub eof: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub ok: bool,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let data = text::decode("data", input.data, input.data_b64)?;
    if data.is_none() && !input.eof {
        return Err(Error::invalid("data", "is missing, and `eof` is not set either"));
    }
    let (data, exec) = (data.unwrap_or_default(), input.exec_id.as_str());
    let mut inside = engine.entry().enter(call, &input.sandbox_id)?;
    // A command that does not read makes this wait.
    let _cut = cut_at_cancel(call, &inside.guest)?;
    let pieces = data.len().div_ceil(PIECE_LEN).max(1);
    for index in 0..pieces {
        let piece = &data[index * PIECE_LEN..data.len().min((index + 1) * PIECE_LEN)];
        let eof = input.eof && index + 1 == pieces;
        let patience = engine.policy().exec_timeout_max.unwrap_or(WAIT_MAX);
        if let Err(failure) = inside.guest.input(exec, piece, eof, patience) {
            call.cancel.check()?;
            return Err(failure.into());
        }
    }
    Ok(Output { ok: true })
}
