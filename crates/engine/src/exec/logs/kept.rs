//! What is kept of one exec, and how it is read again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_core::exec::Truncation;
use coracle_core::{ExecId, KeptLogs, Record, Result, SandboxId, State, Timestamp};
use coracle_wire::{Chunk, ExecState, Stream};
use serde::{Deserialize, Serialize};

use crate::Caller;
use crate::exec::Execs;
use crate::exec::progress::Progress;

/// What is kept of one exec. Readers of a later coracle ignore fields they do not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub exec_id: ExecId,
    pub progress: Progress,
    pub chunks: Vec<Piece>,
}

/// A numbered piece of output, in a line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    seq: u64,
    /// It came from standard error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    error: bool,
    b64: String,
}

impl Kept {
    /// Keeps as much output as there is room for, from the beginning; says what is missing as the guest does.
    pub fn of(exec_id: ExecId, state: &ExecState, chunks: Vec<Chunk>, room: &mut u64) -> Self {
        let mut progress = Progress::final_of(state);
        let mut kept = Vec::new();
        let mut chunks = chunks.into_iter().peekable();
        while let Some(chunk) = chunks.next_if(|chunk| chunk.data.len() as u64 <= *room) {
            *room -= chunk.data.len() as u64;
            kept.push(Piece::from(&chunk));
        }
        if let Some(first) = chunks.peek().map(|chunk| chunk.seq) {
            let bytes: u64 = chunks.map(|chunk| chunk.data.len() as u64).sum();
            let before = progress.truncation.map_or(0, |gap| gap.bytes);
            let from = progress.truncation.map_or(first, |gap| gap.from.min(first));
            progress.truncation = Some(Truncation { from, bytes: before + bytes });
            progress.truncated = true;
        }
        Self { exec_id, progress, chunks: kept }
    }

    /// Returns the chunks behind `since`.
    pub fn chunks_behind(&self, since: u64) -> Vec<Chunk> {
        self.chunks.iter().filter(|piece| piece.seq > since).filter_map(Piece::chunk).collect()
    }
}

impl Piece {
    fn from(chunk: &Chunk) -> Self {
        let error = chunk.stream == Stream::Stderr;
        Self { seq: chunk.seq, error, b64: STANDARD.encode(&chunk.data) }
    }

    fn chunk(&self) -> Option<Chunk> {
        let stream = if self.error { Stream::Stderr } else { Stream::Stdout };
        Some(Chunk { seq: self.seq, stream, data: STANDARD.decode(&self.b64).ok()? })
    }
}

impl Execs {
    /// Returns what is kept of an exec whose sandbox was closed, for its last owner; nothing for other callers.
    pub(crate) fn kept_log(
        &self,
        caller: &Caller,
        sandbox: &SandboxId,
        exec: &ExecId,
    ) -> Result<Option<Kept>> {
        let Some((logs, record)) = self.log_of(caller, sandbox)? else { return Ok(None) };
        // A file that cannot be read is no log: the caller is told what it is told without one.
        let kept = logs.read(&record, exec, self.records.observed()?).unwrap_or(None);
        Ok(kept.and_then(|kept| kept.read().ok()))
    }

    /// Returns the execs whose output is kept of a sandbox that was closed; nothing where none is.
    pub(crate) fn kept_execs(&self, caller: &Caller, sandbox: &SandboxId) -> Result<Option<Vec<ExecId>>> {
        let Some((logs, record)) = self.log_of(caller, sandbox)? else { return Ok(None) };
        Ok(logs.execs(&record, self.records.observed()?).unwrap_or(None))
    }

    /// Removes what was kept for long enough; returns how many sandboxes' output.
    pub(crate) fn sweep_logs(&self, now: Timestamp) -> Result<usize> {
        self.logs.as_ref().map_or(Ok(0), |logs| logs.sweep(now))
    }

    /// Returns where the output of a sandbox is kept, if that was closed and the caller may read it.
    fn log_of(&self, caller: &Caller, sandbox: &SandboxId) -> Result<Option<(&dyn KeptLogs, Record)>> {
        let (Some(logs), Some(record)) = (self.logs.as_deref(), self.records.store().find(sandbox)?) else {
            return Ok(None);
        };
        let over = matches!(record.state, State::Destroying | State::Destroyed | State::DestroyFailed);
        Ok((over && owned_last(caller, &record)).then_some((logs, record)))
    }
}

/// Without an owner, every caller that may see the sandbox may read its output, as it could close it.
fn owned_last(caller: &Caller, record: &Record) -> bool {
    let owned = record.lease.owner().is_none() || record.lease.admit(&caller.claim).is_ok();
    caller.sees(record) && owned && caller.check_reach(record).is_ok()
}
