//! The programs that are run in everything that is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const NOTHING: &str = "int main(void) { return 0; }\n";
/// Half an hour bounds what a killed benchmark leaves behind.
const WAITING: &str = "#include <unistd.h>\nint main(void) { sleep(1800); return 0; }\n";

/// Static programs, so that they run in any root.
#[derive(Debug)]
pub struct Programs {
    /// Exits with 0.
    pub nothing: PathBuf,
    /// Keeps a container open.
    pub waiting: PathBuf,
}

impl Programs {
    pub fn compile(directory: &Path) -> Result<Self> {
        let (nothing, waiting) = (directory.join("true"), directory.join("wait"));
        compile(&nothing, NOTHING)?;
        compile(&waiting, WAITING)?;
        Ok(Self { nothing, waiting })
    }
}

fn compile(program: &Path, text: &str) -> Result<()> {
    let source = program.with_extension("c");
    std::fs::write(&source, text)?;
    let status = Command::new("gcc").args(["-O2", "-static", "-o"]).arg(program).arg(&source).status();
    ensure!(
        status.context("`gcc` cannot be started")?.success(),
        "could not compile `{}`",
        program.display()
    );
    Ok(())
}
