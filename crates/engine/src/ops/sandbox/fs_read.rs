//! `sandbox_fs_read`: returns the contents of a file, or the beginning of them.

use coracle_core::spec::check_path;
use coracle_core::{Error, Result, SandboxId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Scope, Set};
use crate::text::TextOrBase64;
use crate::{Call, Engine, files, inline};

const MAX_BYTES: usize = 256 << 10;
/// What a reply may reasonably hold; larger files are for doors that stream.
const MAX_BYTES_MAX: usize = 16 << 20;

pub const FACTS: Facts =
    Facts::reads("sandbox_fs_read", "Read a file", "Returns the contents of a file in a sandbox")
        .for_models(Model::Fields(&["sandbox_id", "path", "max_bytes"]))
        .among(Set::Code)
        .within(Scope::Everybody)
        .waking();

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    /// Relative to the workspace, or absolute.
    pub path: String,
    /// 256 KiB if absent.
    #[serde(default)]
    pub max_bytes: Option<usize>,
    /// The user whose rights it has, by name or number; the one commands run as if absent. `root` may do everything.
    #[serde(default)]
    pub user: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<String>,
    /// Instead of `contents`, where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents_b64: Option<String>,
    pub truncated: bool,
    pub size_bytes: u64,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    check_path("path", &input.path)?;
    let max_bytes = input.max_bytes.unwrap_or(MAX_BYTES);
    if !(1..=MAX_BYTES_MAX).contains(&max_bytes) {
        return Err(Error::invalid("max_bytes", format!("is {max_bytes}, outside 1 to {MAX_BYTES_MAX}")));
    }
    let mut inside = engine.entry().enter_to_look(call, &input.sandbox_id)?;
    inside.act_as(input.user.as_deref())?;
    if !engine.inline.takes(max_bytes as u64) {
        let less = "ask for less with `max_bytes`; over HTTP files of any size come from `…/files`";
        return Err(inline::no_room(less));
    }
    let head = files::read_head(&mut inside, input.path.as_bytes(), max_bytes)?;
    let TextOrBase64 { text, base64 } = whole_characters(head.data, head.truncated).into();
    Ok(Output { contents: text, contents_b64: base64, truncated: head.truncated, size_bytes: head.size })
}

/// Drops a character that the cut went through, so that text stays text.
fn whole_characters(mut data: Vec<u8>, truncated: bool) -> Vec<u8> {
    if let (true, Err(error)) = (truncated, std::str::from_utf8(&data))
        && error.error_len().is_none()
    {
        data.truncate(error.valid_up_to());
    }
    data
}
