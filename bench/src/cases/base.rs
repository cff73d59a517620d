//! The floor: vfork and exec of a program that does nothing.

use std::process::Command;

use anyhow::Result;

use super::name;
use super::process::Process;
use crate::workshop::Workshop;

/// Makes the case every ratio is taken against.
pub fn case(workshop: &Workshop) -> Result<Process> {
    Process::new(name::BASE, Command::new(&workshop.programs.nothing))
}
