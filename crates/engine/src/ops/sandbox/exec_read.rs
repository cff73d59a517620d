//! `sandbox_exec_read`: returns output of an exec, from any place on.

use std::time::Duration;

use coracle_core::network::Denial;
use coracle_core::{Error, ExecId, Result, SandboxId};
use coracle_wire::{Chunk, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Scope, Set};
use crate::exec::logs::Kept;
use crate::exec::progress::Progress;
use crate::inline::Inline;
use crate::text::TextOrBase64;
use crate::{Call, Engine};

/// Chunks are small where output comes slowly; this many fit a reply even where it does not.
const MAX_CHUNKS: u32 = 1024;
/// What a guest puts into one answer at most, and so what is taken of what was kept.
const PAGE_LEN: u64 = 512 << 10;

pub const FACTS: Facts = Facts::reads(
    "sandbox_exec_read",
    "Read the output of a command",
    "Returns output of a command, from any place on",
)
.for_models(Model::Fields(&["sandbox_id", "exec_id", "since_seq", "max_chunks"]))
.among(Set::Code)
.within(Scope::Everybody)
.waking();

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    pub exec_id: ExecId,
    /// Returns the chunks after this one; they count from 1.
    #[serde(default)]
    pub since_seq: u64,
    #[serde(default)]
    pub max_chunks: Option<u32>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub chunks: Vec<OutputChunk>,
    /// It has ended and there is no more output behind these chunks.
    pub done: bool,
    #[serde(flatten)]
    pub progress: Progress,
    /// What of the network the sandbox was refused while it ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress_denied: Vec<Denial>,
}

/// A numbered piece of output.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct OutputChunk {
    pub seq: u64,
    pub stream: StreamName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Instead of `text`, where the piece by itself is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b64: Option<String>,
}

/// Which stream a piece came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamName {
    Stdout,
    Stderr,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let caller = &call.caller;
    let max_chunks = input.max_chunks.unwrap_or(MAX_CHUNKS);
    if max_chunks == 0 {
        return Err(Error::invalid("max_chunks", "must be at least 1"));
    }
    // Where there is no room for a page there is some for a chunk, so that a reader gets on.
    let max_chunks = if engine.inline.takes(PAGE_LEN.min(engine.inline.most())) { max_chunks } else { 1 };
    if let Some(kept) = engine.execs().kept_log(caller, &input.sandbox_id, &input.exec_id)? {
        let page = Inline::at_most(PAGE_LEN.min(engine.inline.most()));
        return Ok(of_kept(&kept, input.since_seq, max_chunks as usize, &page));
    }
    let mut inside = engine.entry().enter_to_look(call, &input.sandbox_id)?;
    let read = inside.guest.read(input.exec_id.as_str(), input.since_seq, max_chunks, Duration::ZERO);
    let (mut chunks, state) = match read {
        Ok(read) => read,
        Err(failure) => {
            let progress = engine.execs().of_killed_life(&inside.record, &input.exec_id, failure)?;
            return Ok(Output { chunks: Vec::new(), done: true, progress, egress_denied: Vec::new() });
        }
    };
    engine.execs().tell_ended(&inside.record, &input.exec_id, &state);
    engine.inline.shorten(&mut chunks);
    let all = chunks.last().is_none_or(|chunk| chunk.seq >= state.last_seq);
    Ok(Output {
        chunks: chunks.into_iter().map(Into::into).collect(),
        done: state.ending.is_some() && all,
        progress: Progress::of(&state),
        egress_denied: engine.egress().denied_during(&inside.record, &state),
    })
}

/// Returns output of an exec whose sandbox was closed.
fn of_kept(kept: &Kept, since: u64, max: usize, page: &Inline) -> Output {
    let mut chunks = kept.chunks_behind(since);
    let all = chunks.len();
    chunks.truncate(max);
    page.shorten(&mut chunks);
    let done = chunks.len() == all;
    let chunks = chunks.into_iter().map(Into::into).collect();
    Output { chunks, done, progress: kept.progress.clone(), egress_denied: Vec::new() }
}

impl From<Chunk> for OutputChunk {
    fn from(chunk: Chunk) -> Self {
        let TextOrBase64 { text, base64 } = chunk.data.into();
        let stream = match chunk.stream {
            Stream::Stdout => StreamName::Stdout,
            Stream::Stderr => StreamName::Stderr,
        };
        Self { seq: chunk.seq, stream, text, b64: base64 }
    }
}
