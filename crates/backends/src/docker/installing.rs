//! The right to install the guest's program at a container engine. One process of a home has it at a time, and a
//! file tells whether the last holder was killed meanwhile.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;

/// The right, for as long as the value lives.
#[derive(Debug)]
pub struct Installing {
    file: File,
}

impl Installing {
    /// Waits until no other process has it.
    pub fn wait(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        file.lock()?;
        Ok(Self { file })
    }

    /// Returns it if a holder was killed after it had begun, and no process has it now.
    pub fn abandoned(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::options().write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let free = file.try_lock().is_ok();
        let begun = file.metadata()?.len() > 0;
        Ok((free && begun).then_some(Self { file }))
    }

    /// Records that the container engine has something from now on that must be removed again.
    pub fn begin(&mut self) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(b"begun\n")
    }

    /// Records that nothing of it is left.
    pub fn end(&mut self) -> io::Result<()> {
        self.file.set_len(0)
    }
}
