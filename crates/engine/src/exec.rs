//! Commands from request to end: started, followed, controlled, and their output kept when their sandbox is closed.

pub mod attach;
pub(crate) mod cancel;
mod capture;
pub mod control;
mod events;
pub mod follow;
pub(crate) mod image;
mod lives;
pub(crate) mod logs;
pub mod naming;
mod part;
mod program;
pub mod progress;
mod request;
mod stop;
mod timeout;
mod warm;
mod watched;

use std::sync::Arc;

use coracle_core::network::Denial;
use coracle_core::{ExecId, KeptLogs, Policy};
pub use coracle_wire::Terminal;

pub use self::request::{ExecRequest, Secrets, Stdin, checked_grace};
pub(crate) use self::request::{check_argv, command_user};
pub use self::timeout::{Timeout, checked_wait};
pub(crate) use self::warm::is_waiting_interpreter;
pub use self::watched::Watched;
use crate::access::Access;
use crate::egress::Egress;
use crate::entry::Entry;
use crate::exec::progress::Progress;
use crate::guest::Gap;
use crate::headroom::Headroom;
use crate::inline::Inline;
use crate::records::Records;

/// Runs commands in sandboxes that callers were let into. Clones differ at most in how much output their answers carry.
#[derive(Debug, Clone)]
pub struct Execs {
    records: Arc<Records>,
    headroom: Arc<Headroom>,
    access: Arc<Access>,
    egress: Arc<Egress>,
    entry: Arc<Entry>,
    policy: Arc<Policy>,
    /// Where the output of closed sandboxes is kept; without it none is.
    logs: Option<Arc<dyn KeptLogs>>,
    inline: Inline,
}

/// What commands are run with.
pub(crate) struct ExecParts {
    pub records: Arc<Records>,
    pub headroom: Arc<Headroom>,
    pub access: Arc<Access>,
    pub egress: Arc<Egress>,
    pub entry: Arc<Entry>,
    pub policy: Arc<Policy>,
    pub logs: Option<Arc<dyn KeptLogs>>,
}

impl Execs {
    pub(crate) fn new(parts: ExecParts) -> Self {
        let ExecParts { records, headroom, access, egress, entry, policy, logs } = parts;
        Self { records, headroom, access, egress, entry, policy, logs, inline: Inline::default() }
    }

    /// Returns the same, with answers that carry this much output.
    pub(crate) fn answering(&self, inline: Inline) -> Self {
        Self { inline, ..self.clone() }
    }
}

/// A command that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    pub exec_id: ExecId,
    /// It had been started before under the same id.
    pub existing: bool,
}

/// A command that ran to its end, with its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    pub exec_id: ExecId,
    pub progress: Progress,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// What is missing here though it was kept, because not all of it was wanted.
    pub gap: Option<Gap>,
    /// What of the network the sandbox was refused while it ran.
    pub egress_denied: Vec<Denial>,
}
