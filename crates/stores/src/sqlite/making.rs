//! Makes the database of a new home, or of one that has lost its own. The finished file appears at once, by a link.
//! So a database that is empty, or has no tables, was damaged.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use coracle_core::error::Result;
use coracle_core::home::Home;
use coracle_core::ids::InstanceId;

use super::instance::{self, Recall};
use super::{error, home, location, mark, migrations};

/// Makes the home and its database, unless another process did so meanwhile. A home known by its `instance` file or
/// by its sandboxes' directories keeps its id, so that running sandboxes are found under it.
pub fn database(home: &Home, recall: Recall<'_>) -> Result<()> {
    home::make_private(home.path())?;
    let _lock = home::migration_lock(home)?;
    let path = home.database();
    let found = length(&path)?;
    if found.is_some_and(|length| length > 0) {
        return Ok(());
    }
    expect_no_log(home)?;
    let id = match instance::read(home)? {
        Some(id) => id,
        None => {
            let id = recall()?.map_or_else(instance::draw, Ok)?;
            instance::write(home, &id)?;
            id
        }
    };
    // The time of the last sweep belongs to the lost database.
    let _ = fs::remove_file(home.swept());
    mark::forget(home);
    if found.is_some() {
        fs::remove_file(&path).map_err(|error| home::unusable(&path, "remove", error))?;
    }
    make(home, &id)
}

/// Returns the length of a file; `None` if it does not exist. A file that cannot be examined is an error: a stalled
/// disk must not turn a full home into a new one.
pub fn length(path: &Path) -> Result<Option<u64>> {
    match path.metadata() {
        Ok(found) => Ok(Some(found.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(home::unusable(path, "look at", error)),
    }
}

/// Refuses a log without its database: it holds changes that SQLite would throw away.
fn expect_no_log(home: &Home) -> Result<()> {
    let log = home.database_log();
    match length(&log)? {
        Some(1..) => {
            let message = format!("the database of the home is gone, and its log `{}` is not", log.display());
            let advice = "put the database back. If it is lost, move its `-wal` and `-shm` files away, too, and run `coracle gc`: what still runs is set aside, not deleted";
            Err(error::lost(message, advice))
        }
        Some(0) | None => Ok(()),
    }
}

fn make(home: &Home, id: &InstanceId) -> Result<()> {
    let (directory, path) = (home.making(), home.database());
    let failed = |error: io::Error| home::unusable(&path, "make", error);
    // An earlier holder of the lock may have died here.
    let _ = fs::remove_dir_all(&directory);
    home::make_private(&directory)?;
    let draft = directory.join(path.file_name().unwrap_or_default());
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed)?;
    let made = || -> rusqlite::Result<()> {
        let sqlite = rusqlite::Connection::open(&draft)?;
        // No other process sees it before it is done, and it is synced as a whole.
        sqlite.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(()))?;
        sqlite.pragma_update(None, "synchronous", "OFF")?;
        migrations::fill(&sqlite, id)?;
        if let Ok(Some(location)) = location::expect(home.path(), None) {
            location.note(&sqlite)?;
        }
        sqlite.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        sqlite.close().map_err(|(_, error)| error)
    };
    made().map_err(|error| error::from_sqlite(error, "make the tables", &draft))?;
    file.sync_all().map_err(failed)?;
    // A link, not a rename: a rename would replace a file that appeared meanwhile.
    fs::hard_link(&draft, &path).map_err(failed)?;
    File::open(home.path()).and_then(|home| home.sync_all()).map_err(failed)?;
    let _ = fs::remove_dir_all(&directory);
    Ok(())
}
