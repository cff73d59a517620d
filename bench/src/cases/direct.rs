//! A file written without anything in between.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::name;
use crate::case::{Case, timed};
use crate::workshop::Workshop;

/// What every case of writing writes.
pub const CONTENTS: [u8; 1024] = [b'x'; 1024];

/// Opens, writes and closes a file of 1 KiB.
pub struct Write {
    name: &'static str,
    path: PathBuf,
    before: Before,
}

/// What is there before the file is written. Some filesystems start to write back at once what replaces something, which
/// costs more than the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    AnotherVersion,
    Nothing,
}

impl Write {
    pub fn new(workshop: &Workshop, before: Before) -> Self {
        let name = match before {
            Before::AnotherVersion => name::DIRECT_WRITE,
            Before::Nothing => name::DIRECT_WRITE_NEW,
        };
        Self { name, path: workshop.path(&name.replace(' ', "-")), before }
    }
}

impl Case for Write {
    fn name(&self) -> &'static str {
        self.name
    }

    fn once(&mut self) -> Result<Duration> {
        let took = timed(|| Ok(std::fs::write(&self.path, CONTENTS)?))?;
        if self.before == Before::Nothing {
            std::fs::remove_file(&self.path)?;
        }
        Ok(took)
    }
}
