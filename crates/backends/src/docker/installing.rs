//! The right to put the guest's program at an engine: one process of a home has it at a time, and a file tells if
//! whoever had it last was killed over it.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;

/// The right, for as long as the value lives.
#[derive(Debug)]
pub struct Installing {
    file: File,
}

impl Installing {
    /// Waits until nobody else has it.
    pub fn wait(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        file.lock()?;
        Ok(Self { file })
    }

    /// Returns it if somebody was killed who had begun, and nobody has it now.
    pub fn abandoned(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::options().write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let free = file.try_lock().is_ok();
        let begun = file.metadata()?.len() > 0;
        Ok((free && begun).then_some(Self { file }))
    }

    /// Notes that something is at the engine from now on that has to be removed again.
    pub fn begin(&mut self) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(b"begun\n")
    }

    /// Notes that nothing of it is left.
    pub fn end(&mut self) -> io::Result<()> {
        self.file.set_len(0)
    }
}
