//! The log of a sandbox's denials: bounded, numbered, and written before the client hears of the refusal.
//!
//! Two files hold the newer and the older half. When the newer one is full it becomes the older, so the log always
//! has the last five hundred entries at least and never more than a thousand.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use coracle_core::network::Denial;
use coracle_core::{Clock, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const NEWER: &str = "denials";
const OLDER: &str = "denials.old";
/// Lines in one of the two files.
const LINES_MAX: u64 = 500;
/// A line is a bounded host and a few words. The keeper did not write a longer file.
const FILE_MAX: u64 = 1 << 20;

/// One denial, its time, and its number in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    pub seq: u64,
    #[schemars(with = "u64")]
    pub at: Timestamp,
    #[serde(flatten)]
    pub denial: Denial,
}

/// Writes the log. Only the keeper of a sandbox has one.
pub struct Denials {
    directory: PathBuf,
    clock: std::sync::Arc<dyn Clock>,
    pen: Mutex<Pen>,
}

#[derive(Debug)]
struct Pen {
    seq: u64,
    lines: u64,
    file: Option<File>,
}

impl std::fmt::Debug for Denials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Denials").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Denials {
    /// Continues the log in this directory.
    pub fn open(directory: &Path, clock: std::sync::Arc<dyn Clock>) -> Self {
        let entries = read(directory);
        let seq = entries.last().map_or(0, |entry| entry.seq);
        // How full the newer file is does not matter enough to count its lines: start a new one.
        let pen = Pen { seq, lines: LINES_MAX, file: None };
        Self { directory: directory.to_owned(), clock, pen: Mutex::new(pen) }
    }

    /// Records a denial. If the write fails, the client is refused all the same.
    pub fn add(&self, denial: &Denial) {
        let mut pen = self.pen.lock().unwrap_or_else(PoisonError::into_inner);
        pen.seq += 1;
        let entry = Entry { seq: pen.seq, at: self.clock.now(), denial: denial.clone() };
        let _ = self.write(&mut pen, &entry);
    }

    fn write(&self, pen: &mut Pen, entry: &Entry) -> io::Result<()> {
        if pen.lines >= LINES_MAX || pen.file.is_none() {
            let newer = self.directory.join(NEWER);
            match fs::rename(&newer, self.directory.join(OLDER)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => pen.file = Some(File::create(&newer)?),
            }
            pen.lines = 0;
        }
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        pen.lines += 1;
        pen.file.as_ref().map_or(Ok(()), |mut file| file.write_all(&line))
    }
}

/// Returns the entries of the log, oldest first.
pub fn read(directory: &Path) -> Vec<Entry> {
    let mut entries: Vec<Entry> =
        [OLDER, NEWER].iter().flat_map(|name| read_file(&directory.join(name))).collect();
    // If the keeper turns the files over between the two reads, one file is read twice.
    entries.sort_by_key(|entry| entry.seq);
    entries.dedup_by_key(|entry| entry.seq);
    entries
}

fn read_file(path: &Path) -> Vec<Entry> {
    let Ok(metadata) = fs::metadata(path) else { return Vec::new() };
    if metadata.len() > FILE_MAX {
        return Vec::new();
    }
    let text = fs::read(path).unwrap_or_default();
    // The last line may be incomplete: its writer was killed.
    text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}
