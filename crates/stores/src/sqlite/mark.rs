//! How many changes the database has seen, in a small file beside it.
//!
//! A lost or torn write-ahead log leaves an older database that looks whole, and so does a restored backup. The
//! database counts every change, and the count is noted here once it is committed, so an older database is noticed.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use coracle_core::error::Result;
use coracle_core::home::Home;
use coracle_core::store::Durability;

use super::error;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Enough digits for any counter: every mark has the same length.
const DIGITS: usize = 20;

/// Which database it is, and how many changes it has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Generated when the database was made.
    pub lineage: String,
    pub changes: u64,
}

/// The last note.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Noted {
    /// The current boot: changes that need not survive power loss are expected only in the boot they were made in.
    boot: String,
    progress: Progress,
    /// How many changes were synced to the disk.
    durable: u64,
    /// The length of the database itself, without its log. It never shrinks; a missing end might go unnoticed for
    /// long.
    length: u64,
}

/// The file, and what this process knows about it.
#[derive(Debug)]
pub struct Mark {
    path: PathBuf,
    database: PathBuf,
    file: Option<File>,
    boot: String,
    noted: Option<Noted>,
}

impl Mark {
    /// Reads the mark. Call it before reading the database: everything noted was committed before.
    pub fn read(home: &Home) -> Self {
        let path = home.database_mark();
        let boot = fs::read_to_string(BOOT_ID).unwrap_or_default().trim_end().to_owned();
        let noted = fs::read_to_string(&path).ok().and_then(|text| Noted::parse(&text));
        Self { path, database: home.database(), file: None, boot, noted }
    }

    /// Refuses a database that has lost changes, or is not the one this home had.
    pub fn expect(&self, found: &Progress) -> Result<()> {
        let Some(noted) = &self.noted else { return Ok(()) };
        let same_boot = noted.boot == self.boot;
        let lost = match () {
            () if noted.progress.lineage != found.lineage => "is not the one this home used last",
            () if same_boot && self.length() < noted.length => {
                // The rest of a shortened database cannot be trusted.
                let message = format!("the database `{}` is shorter than it was", self.database.display());
                return Err(error::lost(message, error::advice(&self.database)));
            }
            () if same_boot && found.changes < noted.progress.changes => "has lost changes",
            () if found.changes < noted.durable => "has lost changes",
            () => return Ok(()),
        };
        let (shown, mark) = (self.database.display(), self.path.display());
        let advice = format!(
            "put `{shown}` and its `-wal` file back as they were. To go on with what is left, remove `{mark}` and run `coracle gc`: what runs without a record is set aside, not deleted"
        );
        Err(error::lost(format!("the database `{shown}` {lost}"), advice)
            .detail("changes", found.changes)
            .detail("expected", noted.progress.changes))
    }

    /// Notes what was committed. Best effort: a note that cannot be written makes nothing fail.
    pub fn note(&mut self, progress: Progress, durability: Durability) {
        let before = self.noted.as_ref().filter(|noted| noted.progress.lineage == progress.lineage);
        let durable = match durability {
            Durability::Power => progress.changes,
            Durability::Process => before.map_or(0, |noted| noted.durable),
        };
        let noted = Noted { boot: self.boot.clone(), progress, durable, length: self.length() };
        if self.file.is_none() {
            let opened =
                OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path);
            self.file = opened.ok();
        }
        if let Some(file) = &self.file {
            let _ = file.write_all_at(noted.written().as_bytes(), 0);
        }
        self.noted = Some(noted);
    }

    fn length(&self) -> u64 {
        self.database.metadata().map_or(0, |found| found.len())
    }
}

impl Noted {
    /// Written twice: a reader that interrupts the write sees two different lines, and trusts neither.
    fn written(&self) -> String {
        let Self { boot, progress: Progress { lineage, changes }, durable, length } = self;
        let line = format!("{boot} {lineage} {changes:0DIGITS$} {durable:0DIGITS$} {length:0DIGITS$}\n");
        line.repeat(2)
    }

    fn parse(text: &str) -> Option<Self> {
        let (first, second) = text.split_at_checked(text.len() / 2)?;
        let mut words = first.strip_suffix('\n').filter(|_| first == second)?.split(' ');
        let (boot, lineage) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut number = || words.next()?.parse().ok();
        let (changes, durable, length) = (number()?, number()?, number()?);
        Some(Self { boot, progress: Progress { lineage, changes }, durable, length })
    }
}

/// Removes the mark of a database that is gone.
pub fn forget(home: &Home) {
    // If the file stays, opening the next database reports it.
    let _ = fs::remove_file(home.database_mark());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted() -> Noted {
        let progress = Progress { lineage: "a".repeat(32), changes: 7 };
        Noted { boot: "b".repeat(36), progress, durable: 3, length: 4096 }
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        assert_eq!(Noted::parse(&noted().written()), Some(noted()));
    }

    #[test]
    fn a_mark_that_is_half_written_is_not_believed() {
        let (old, mut new) = (noted().written(), noted());
        new.progress.changes = 8;
        let new = new.written();

        for at in 1..new.len() {
            let torn = format!("{}{}", &new[..at], &old[at..]);
            let read = Noted::parse(&torn);
            assert!(read.is_none() || torn == old || torn == new, "{torn}");
        }
        assert_eq!(Noted::parse(&old[..40]), None);
        assert_eq!(Noted::parse(""), None);
    }
}
