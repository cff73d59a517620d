//! One connection: how it is opened, and how transactions begin and end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_core::error::{Error, Result};
use coracle_core::store::Durability;
use rusqlite::config::DbConfig;
use rusqlite::{ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::{error, home, migrations};

/// The name of the database in the home.
const DATABASE: &str = "coracle.db";
/// How long SQLite itself waits for another process's transaction. Ours are short; a disk may stall.
const BUSY: Duration = Duration::from_secs(5);
/// How often that wait is repeated: SQLite's back-off is not fair, so one wait may pass a busy caller over.
const ATTEMPTS: usize = 3;
/// Pages in the write-ahead log before it is copied back. Whoever opens the database alone reads the log from its
/// start, so its length is a cost of every CLI call; the default of 1000 pages is milliseconds.
const CHECKPOINT_PAGES: u32 = 128;

/// A connection and how its commits are synced at present.
#[derive(Debug)]
pub struct Connection {
    path: PathBuf,
    sqlite: rusqlite::Connection,
    /// `None` until the first write: readers need not care.
    sync: Option<Durability>,
}

impl Connection {
    /// Opens the database of a home and brings its schema up to date.
    pub fn open(home: &Path) -> Result<Self> {
        let path = home.join(DATABASE);
        let sqlite = match open_existing(&path) {
            Ok(sqlite) => sqlite,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => {
                home::prepare(home, &path)?;
                open_existing(&path).map_err(|error| error::from_sqlite(error, "open", &path))?
            }
            Err(error) => return Err(error::from_sqlite(error, "open", &path)),
        };
        let mut connection = Self { path, sqlite, sync: None };
        migrations::bring_up_to_date(home, &mut connection)?;
        Ok(connection)
    }

    /// Reads outside any transaction: one statement sees one moment.
    pub fn read<T>(
        &self,
        attempt: &str,
        mut query: impl FnMut(&rusqlite::Connection) -> Answer<T>,
    ) -> Result<T> {
        self.patiently(|| query(&self.sqlite)).map_err(|failure| self.report(failure, attempt))
    }

    /// Runs `change` in a transaction that no other writer can come between, and commits it if it succeeds.
    pub fn write<T>(
        &mut self,
        durability: Durability,
        attempt: &str,
        change: impl FnOnce(&Transaction<'_>) -> Answer<T>,
    ) -> Result<T> {
        let path = self.path.clone();
        self.sync_as(durability)
            .and_then(|()| self.commit(change))
            .map_err(|failure| failure.into_error(attempt, &path))
    }

    fn commit<T>(&mut self, change: impl FnOnce(&Transaction<'_>) -> Answer<T>) -> Answer<T> {
        // Immediate: a transaction that reads first and then finds the lock taken would have to start over.
        let sqlite = &self.sqlite;
        let transaction =
            self.patiently(|| Ok(Transaction::new_unchecked(sqlite, TransactionBehavior::Immediate)?))?;
        let value = change(&transaction)?;
        transaction.commit()?;
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

    /// Repeats what did nothing yet because another process held the database.
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

/// The result of a step inside a transaction.
pub type Answer<T> = std::result::Result<T, Failure>;

/// Either the database failed, or the rules said no.
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

fn open_existing(path: &Path) -> rusqlite::Result<rusqlite::Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sqlite = rusqlite::Connection::open_with_flags(path, flags)?;
    sqlite.busy_timeout(BUSY)?;
    // The last process to leave would copy the log back and sync twice: a cost at the end of every CLI call.
    sqlite.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(sqlite)
}
