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
    path: PathBuf,
}

impl Write {
    pub fn new(workshop: &Workshop) -> Self {
        Self { path: workshop.path("direct") }
    }
}

impl Case for Write {
    fn name(&self) -> &'static str {
        name::DIRECT_WRITE
    }

    fn once(&mut self) -> Result<Duration> {
        timed(|| Ok(std::fs::write(&self.path, CONTENTS)?))
    }
}
