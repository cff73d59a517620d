//! `sandbox_fs_write`: writes a file, whole or not at all.

use coracle_core::spec::check_path;
use coracle_core::{Error, Result, SandboxId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Repeat, Scope, Set};
use crate::files::{self, NewFile};
use crate::{Call, Engine, text};

pub const FACTS: Facts = Facts::destroys("sandbox_fs_write", "Write a file", "Writes a file in a sandbox")
    // Where nothing may be there, what was written the first time would be in the way.
    .repeats(Repeat::If(|input| input["overwrite"] != false))
    .for_models(Model::Fields(&["sandbox_id", "path", "contents", "contents_b64", "mode", "overwrite"]))
    .among(Set::Code)
    .within(Scope::Everybody)
    .waking();

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    /// Relative to the workspace, or absolute. A link is followed as far as the path itself may lead.
    pub path: String,
    #[serde(default)]
    pub contents: Option<String>,
    /// Instead of `contents`, for what is not text.
    #[serde(default)]
    pub contents_b64: Option<String>,
    /// Permissions in octal; if absent those of the file that is replaced, or `0644`.
    #[serde(default)]
    pub mode: Option<String>,
    /// Replaces a file that is there, which is the default; with `false` that is a conflict.
    #[serde(default)]
    pub overwrite: Option<bool>,
    /// The user whose rights it has, by name or number; the one commands run as if absent. `root` may do everything.
    #[serde(default)]
    pub user: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub ok: bool,
    /// The absolute path that was written.
    pub path: String,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    check_path("path", &input.path)?;
    let contents = text::decode("contents", input.contents, input.contents_b64)?
        .ok_or_else(|| Error::invalid("contents", "is missing; an empty file has empty contents"))?;
    let file = NewFile {
        mode: input.mode.as_deref().map(parse_mode).transpose()?,
        overwrite: input.overwrite.unwrap_or(true),
        ..NewFile::at(input.path)
    };
    let mut inside = engine.entry().enter(call, &input.sandbox_id)?;
    inside.act_as(input.user.as_deref())?;
    let path = files::write(&mut inside, &file, &mut contents.as_slice())?;
    Ok(Output { ok: true, path: String::from_utf8_lossy(&path).into_owned() })
}

/// Reads permissions in octal; what would make a file run as another user is refused.
pub fn parse_mode(text: &str) -> Result<u32> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let octal =
        !digits.is_empty() && digits.len() <= 5 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let mode = octal.then(|| u32::from_str_radix(digits, 8).ok()).flatten();
    match mode {
        Some(mode) if mode <= 0o777 => Ok(mode),
        Some(_) => Err(Error::invalid("mode", "may hold no bits but the nine of `0777`")),
        None => Err(Error::invalid("mode", "must be octal, as in `0644`")),
    }
}
