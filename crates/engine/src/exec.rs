//! Running commands: what a caller asks, checked, and carried out in a sandbox it was let into.

pub mod attach;
pub(crate) mod cancel;
mod capture;
pub mod control;
pub mod follow;
pub(crate) mod image;
pub mod logs;
mod program;
pub mod progress;
mod request;
mod timeout;
mod warm;
mod watched;

use coracle_core::ExecId;
use coracle_core::network::Denial;
pub use coracle_wire::Terminal;

pub use self::request::{ExecRequest, Secrets, Stdin, checked_grace};
pub(crate) use self::request::{check_argv, command_user};
pub use self::timeout::{Timeout, checked_wait};
pub(crate) use self::warm::is_waiting_interpreter;
pub use self::watched::Watched;
use crate::exec::progress::Progress;
use crate::guest::Gap;

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
