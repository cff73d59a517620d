//! `sandbox_exec_write`: writes to the standard input of a running exec.

use std::time::Duration;

use coracle_core::{Error, ExecId, Result, SandboxId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Caller, Engine, text};

/// What one message to the guest carries.
const PIECE_LEN: usize = 1 << 20;
/// How long a command may leave its input unread where it has no deadline.
const WAIT_MAX: Duration = Duration::from_secs(4 * 3600);

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

pub fn call(engine: &Engine, caller: &Caller, input: Input) -> Result<Output> {
    let data = text::decode("data", input.data, input.data_b64)?;
    if data.is_none() && !input.eof {
        return Err(Error::invalid("data", "is missing, and `eof` is not set either"));
    }
    let (data, exec) = (data.unwrap_or_default(), input.exec_id.as_str());
    let mut inside = engine.enter(caller, &input.sandbox_id)?;
    let pieces = data.len().div_ceil(PIECE_LEN).max(1);
    for index in 0..pieces {
        let piece = &data[index * PIECE_LEN..data.len().min((index + 1) * PIECE_LEN)];
        let eof = input.eof && index + 1 == pieces;
        inside.guest.input(exec, piece, eof, engine.policy().exec_timeout_max.unwrap_or(WAIT_MAX))?;
    }
    Ok(Output { ok: true })
}
