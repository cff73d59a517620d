//! Programs the host has brought: they run like commands, but are no files of the sandbox, and have a connection in
//! place of pipes.

use std::os::fd::{BorrowedFd, OwnedFd};

use coracle_wire::{Command, Fault, FaultCode};

use super::start::{Ends, Watched, fault};
use super::table::Execs;
use crate::forker::Order;
use crate::users::User;

/// Begins the ids of these programs. No caller can choose such an id: an exec's has no space.
const PREFIX: &str = "brought ";

/// A program of the host's, and the connection that becomes its standard input and output.
#[derive(Debug, Clone, Copy)]
pub struct Brought<'a> {
    pub program: BorrowedFd<'a>,
    pub stream: BorrowedFd<'a>,
}

/// Returns the id of the program with this number.
pub fn id(number: u64) -> String {
    format!("{PREFIX}{number}")
}

pub(super) fn is_brought(id: &str) -> bool {
    id.starts_with(PREFIX)
}

impl Execs {
    /// Starts a program of the host's. Lists do not show it, and it has no output of its own.
    pub fn start_brought(
        &self,
        epoch: u64,
        id: &str,
        command: &Command,
        brought: Brought<'_>,
        watch: impl Fn(Watched, &OwnedFd),
    ) -> Result<(), Fault> {
        match self.reserve(epoch, id, command, || {})? {
            Some(serial) => self.begin(id, command, serial, Some(brought), watch),
            None => Err(fault(FaultCode::Internal, format!("exec `{id}` runs already"))),
        }
    }

    /// Returns a connection as the standard streams of a program, without an end of the guest's own.
    pub(super) fn join_streams(&self, stream: BorrowedFd<'_>) -> std::io::Result<Ends> {
        let (stdin, stdout) = (stream.try_clone_to_owned()?, stream.try_clone_to_owned()?);
        let theirs = [stdin, stdout, self.context.null.try_clone()?];
        Ok(Ends { stdin: None, terminal: None, outputs: Vec::new(), theirs })
    }
}

/// Returns the order for a program of the host's, which sees nothing of the sandbox's environment.
pub(super) fn bare_order(command: &Command, user: &User) -> Order {
    Order {
        candidates: Vec::new(),
        argv: command.argv.clone(),
        env: Vec::new(),
        cwd: b"/".to_vec(),
        uid: user.uid,
        gid: user.gid,
        groups: user.groups.clone(),
        terminal: false,
        brought: true,
    }
}
