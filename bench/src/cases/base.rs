//! The floor: vfork and exec of a program that does nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::name;
use super::process::Process;

/// Compiles a static program that exits with 0.
pub fn static_true(workshop: &Path) -> Result<PathBuf> {
    let (source, program) = (workshop.join("true.c"), workshop.join("true"));
    std::fs::write(&source, "int main(void) { return 0; }\n")?;
    let status = Command::new("gcc").args(["-O2", "-static", "-o"]).arg(&program).arg(&source).status();
    ensure!(
        status.context("`gcc` cannot be started")?.success(),
        "could not compile the program that does nothing"
    );
    Ok(program)
}

/// Makes the case every ratio is taken against.
pub fn case(program: &Path) -> Result<Process> {
    Process::new(name::BASE, Command::new(program))
}
