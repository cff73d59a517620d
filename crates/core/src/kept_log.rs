//! The port to output that outlives its sandbox.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{ExecId, TenantId};
use crate::record::Record;

/// What is kept of one exec: a line of JSON in the engine's words, of which nothing below the engine reads more than the
/// exec's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptExec {
    exec_id: ExecId,
    line: String,
}

/// What every line has.
#[derive(Deserialize)]
struct Head {
    exec_id: ExecId,
}

impl KeptExec {
    /// Writes down an object that has the field `exec_id`.
    pub fn of(document: &impl Serialize) -> Result<Self> {
        Self::parse(serde_json::to_string(document).map_err(unwritten)?)
    }

    /// Takes a line as [`KeptExec::line`] gave it.
    pub fn parse(line: String) -> Result<Self> {
        let Head { exec_id } = serde_json::from_str(&line).map_err(unread)?;
        Ok(Self { exec_id, line })
    }

    pub fn exec_id(&self) -> &ExecId {
        &self.exec_id
    }

    /// Returns it as one line, without an end of line.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Returns the object that was written down.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.line).map_err(unread)
    }
}

/// Keeps the output of closed sandboxes for a while, in observed time. Safe to use from many threads and processes at once.
pub trait KeptLogs: fmt::Debug + Send + Sync {
    /// Tells whether anything is kept at all. Where nothing is, nothing is written.
    fn is_on(&self) -> bool;

    /// Keeps what the execs of a sandbox have left, in the place of what was kept of it before. A reader sees all of it or
    /// nothing, and so does whoever comes after a crash.
    ///
    /// `written` is called when all of it is written and none of it can be read yet. Output of others may go for it where
    /// too much is kept: that of the tenant that has most.
    fn write(&self, record: &Record, kept: &[KeptExec], now: Timestamp, written: &dyn Fn()) -> Result<()>;

    /// Returns what is kept of an exec; nothing where there is none, or it was kept for long enough.
    fn read(&self, record: &Record, exec: &ExecId, now: Timestamp) -> Result<Option<KeptExec>>;

    /// Returns the execs of which something is kept, in the order they were written; nothing where no output of the
    /// sandbox is kept, or it was kept for long enough.
    fn execs(&self, record: &Record, now: Timestamp) -> Result<Option<Vec<ExecId>>>;

    /// Returns how many bytes are kept of a tenant's.
    fn taken_by(&self, tenant: &TenantId) -> u64;

    /// Removes what was kept for long enough, and what a crash left half written. Returns how many sandboxes' output.
    fn sweep(&self, now: Timestamp) -> Result<usize>;
}

fn unwritten(error: serde_json::Error) -> Error {
    Error::internal("could not write down the output of an exec", error)
}

fn unread(error: serde_json::Error) -> Error {
    Error::internal("could not read the kept output of an exec", error)
}
