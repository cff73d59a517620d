//! One connection: how it opens, and how transactions begin and end.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_core::error::{Error, Kind, Result};
use coracle_core::home::Home;
use coracle_core::ids::InstanceId;
use coracle_core::store::Durability;
use rusqlite::config::DbConfig;
use rusqlite::{OpenFlags, OptionalExtension, Transaction, TransactionBehavior};

use super::instance::{self, Recall};
use super::mark::{Mark, Progress};
use super::{error, home, location, making, migrations};

/// How long SQLite itself waits for another process's transaction. Ours are short; a disk may stall.
const BUSY: Duration = Duration::from_secs(5);
/// How often that wait is repeated: SQLite's back-off is not fair, so one wait may miss its turn.
const ATTEMPTS: usize = 3;
/// Pages in the write-ahead log before it is copied back. The only process that has the database open reads the log
/// from its start, so its length is a cost of every CLI call; SQLite's default of 1000 pages costs milliseconds.
/// Copying back syncs twice, and the next writer waits for that.
const CHECKPOINT_PAGES: u32 = 160;

/// A connection, and how its commits are synced now.
#[derive(Debug)]
pub struct Connection {
    path: PathBuf,
    sqlite: rusqlite::Connection,
    /// `None` until the first write: readers do not need it.
    sync: Option<Durability>,
    /// Absent for a database in memory.
    mark: Option<Mark>,
    /// The opened file, by device and inode; absent for a database in memory.
    file: Option<(u64, u64)>,
}

impl Connection {
    /// Opens the database of a home and brings its schema up to date; returns it with the home's id.
    ///
    /// Refuses a database that is empty, older than it was, or another home's.
    pub fn open(home: &Home, recall: Recall<'_>) -> Result<(Self, InstanceId)> {
        let path = home.database();
        // Checked before the database is opened: SQLite throws the log of an empty one away.
        match making::length(&path)? {
            Some(0) if instance::read(home)?.is_some() => {
                let message = format!("the database `{}` is empty", path.display());
                return Err(error::lost(message, error::advice(&path)));
            }
            Some(1..) => {}
            Some(0) | None => making::database(home, recall)?,
        }
        let mark = Mark::read(home);
        let sqlite = open_existing(&path).map_err(|error| error::from_sqlite(error, "open", &path))?;
        let file = file_at(&path);
        let mut connection = Self { path, sqlite, sync: None, mark: None, file };
        migrations::bring_up_to_date(home, &mut connection, recall)?;
        let Facts { instance: stored, progress, location } =
            connection.read("read the instance id", facts)?;
        // Note nothing before everything agrees: later calls would trust a wrong note.
        let noted = instance::read(home)?;
        match &noted {
            Some(noted) => instance::expect(noted, &stored, &connection.path)?,
            // The sandboxes' directories are more reliable than a database that may have been copied here. Those of
            // an older coracle have no mark.
            None => {
                if let Ok(Some(made_by)) = recall() {
                    instance::expect(&made_by, &stored, &connection.path)?;
                }
            }
        }
        let moved = location::expect(home.path(), location.as_deref())?;
        mark.expect(&progress)?;
        if noted.is_none() {
            // An older coracle kept the id in the database alone.
            let _lock = home::migration_lock(home)?;
            instance::write(home, &stored)?;
        }
        connection.mark = Some(mark);
        if let Some(location) = moved {
            // On a full disk a later call notes it.
            let _ = connection.write(Durability::Process, "note where the home is", |transaction| {
                Ok(location.note(transaction)?)
            });
        }
        Ok((connection, stored))
    }

    /// Opens an empty database that other processes do not see and that is gone with the result.
    pub fn open_in_memory(id: &InstanceId) -> Result<Self> {
        let path = PathBuf::from(":memory:");
        let made = rusqlite::Connection::open_in_memory()
            .and_then(|sqlite| migrations::fill(&sqlite, id).map(|()| sqlite));
        let sqlite = made.map_err(|error| error::from_sqlite(error, "make the tables", &path))?;
        Ok(Self { path, sqlite, sync: None, mark: None, file: None })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads outside any transaction: a single statement sees one moment.
    pub fn read<T>(
        &self,
        attempt: &str,
        mut query: impl FnMut(&rusqlite::Connection) -> Answer<T>,
    ) -> Result<T> {
        self.expect_in_place()?;
        self.patiently(|| query(&self.sqlite)).map_err(|failure| self.report(failure, attempt))
    }

    /// Runs `change` in a transaction that excludes other writers, and commits it if it succeeds.
    pub fn write<T>(
        &mut self,
        durability: Durability,
        attempt: &str,
        change: impl FnOnce(&Transaction<'_>) -> Answer<T>,
    ) -> Result<T> {
        self.expect_in_place()?;
        let path = self.path.clone();
        self.sync_as(durability)
            .and_then(|()| self.commit(durability, change))
            .map_err(|failure| failure.into_error(attempt, &path))
    }

    /// Refuses to go on with a database that was moved or removed since it was opened: other processes would not see
    /// what this one writes, and sandboxes it makes would have no record.
    fn expect_in_place(&self) -> Result<()> {
        if self.file.is_none() || self.file == file_at(&self.path) {
            return Ok(());
        }
        let message =
            format!("the database `{}` was moved or removed while it was used", self.path.display());
        Err(Error::new(Kind::NotAvailable, message)
            .hint("put it back, or start this program again: it then uses the database that is there"))
    }

    fn commit<T>(
        &mut self,
        durability: Durability,
        change: impl FnOnce(&Transaction<'_>) -> Answer<T>,
    ) -> Answer<T> {
        // Immediate: a transaction that reads first and then finds the write lock taken would have to start over.
        let sqlite = &self.sqlite;
        let transaction =
            self.patiently(|| Ok(Transaction::new_unchecked(sqlite, TransactionBehavior::Immediate)?))?;
        let value = change(&transaction)?;
        let progress = if self.mark.is_some() { Some(count(&transaction)?) } else { None };
        transaction.commit()?;
        // Only after the commit: a noted change that is not in the database would look like a loss.
        if let (Some(mark), Some(progress)) = (&mut self.mark, progress) {
            mark.note(progress, durability);
        }
        Ok(value)
    }

    /// Sets what the next commits wait for. SQLite refuses to change it inside a transaction.
    fn sync_as(&mut self, durability: Durability) -> Answer<()> {
        if self.sync == Some(durability) {
            return Ok(());
        }
        if self.sync.is_none() {
            self.sqlite.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        }
        let level = match durability {
            Durability::Process => "NORMAL",
            Durability::Power => "FULL",
        };
        self.sqlite.pragma_update(None, "synchronous", level)?;
        self.sync = Some(durability);
        Ok(())
    }

    /// Repeats an attempt that changed nothing because another process held the database.
    fn patiently<T>(&self, mut attempt: impl FnMut() -> Answer<T>) -> Answer<T> {
        for _ in 1..ATTEMPTS {
            match attempt() {
                Err(Failure::Sqlite(error)) if error::is_busy(&error) => {}
                other => return other,
            }
        }
        attempt()
    }

    fn report(&self, failure: Failure, attempt: &str) -> Error {
        failure.into_error(attempt, &self.path)
    }
}

fn file_at(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// The result of a step inside a transaction.
pub type Answer<T> = std::result::Result<T, Failure>;

/// Either the database failed, or the rules refused.
#[derive(Debug)]
pub enum Failure {
    Sqlite(rusqlite::Error),
    Refused(Error),
}

impl Failure {
    fn into_error(self, attempt: &str, path: &Path) -> Error {
        match self {
            Self::Sqlite(error) => error::from_sqlite(error, attempt, path),
            Self::Refused(error) => error,
        }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// What a database says about itself.
struct Facts {
    instance: InstanceId,
    progress: Progress,
    /// Where its home was last; absent in a new one and in one of an older coracle.
    location: Option<String>,
}

/// Returns which home the database belongs to, how many changes it has seen, and where the home was.
fn facts(connection: &rusqlite::Connection) -> Answer<Facts> {
    let fact = |name: &str| {
        let sql = "SELECT value FROM facts WHERE name = ?1";
        connection.prepare_cached(sql)?.query_row([name], |row| row.get::<_, String>(0))
    };
    let changes = fact("changes")?.parse().unwrap_or(0);
    Ok(Facts {
        instance: fact("instance")?.parse()?,
        progress: Progress { lineage: fact("lineage")?, changes },
        location: fact("place").optional()?,
    })
}

/// Counts one more change.
fn count(transaction: &Transaction<'_>) -> Answer<Progress> {
    // Not with RETURNING: SQLite makes a temporary table for it, which costs more than a second statement.
    transaction.prepare_cached("UPDATE facts SET value = value + 1 WHERE name = 'changes'")?.execute([])?;
    let sql = "SELECT CAST(value AS INTEGER), (SELECT value FROM facts WHERE name = 'lineage')
               FROM facts WHERE name = 'changes'";
    Ok(transaction.prepare_cached(sql)?.query_row([], |row| {
        let changes: i64 = row.get(0)?;
        Ok(Progress { changes: u64::try_from(changes).unwrap_or(0), lineage: row.get(1)? })
    })?)
}

fn open_existing(path: &Path) -> rusqlite::Result<rusqlite::Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sqlite = rusqlite::Connection::open_with_flags(path, flags)?;
    sqlite.busy_timeout(BUSY)?;
    // The last process to close would copy the log back and sync twice: a cost at the end of every CLI call.
    sqlite.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(sqlite)
}
