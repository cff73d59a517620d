//! The schema, and the steps from older ones. SQLite's `user_version` counts the steps done.

use coracle_core::error::{Error, Kind, Result};
use coracle_core::home::Home;
use coracle_core::ids::InstanceId;
use coracle_core::store::Durability;
use rusqlite::{OpenFlags, Transaction};

use super::connection::Connection;
use super::instance::{self, Recall};
use super::{error, home};

/// Each step brings the schema from its index to the next number. Never change a released one.
const STEPS: [&str; 16] = [
    // Columns hold what queries search for; the document is the whole record. `records` keeps the two in step.
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
     CREATE TABLE sandboxes (
         id TEXT PRIMARY KEY,
         state TEXT NOT NULL,
         key TEXT,
         epoch INTEGER NOT NULL,
         created_at INTEGER NOT NULL,
         updated_at INTEGER NOT NULL,
         document TEXT NOT NULL
     );
     CREATE UNIQUE INDEX live_keys ON sandboxes (key)
         WHERE key IS NOT NULL AND state NOT IN ('destroyed', 'failed');
     CREATE INDEX live_sandboxes ON sandboxes (created_at) WHERE state NOT IN ('destroyed', 'failed');
     CREATE INDEX ended_sandboxes ON sandboxes (updated_at) WHERE state IN ('destroyed', 'failed');",
    // Documents may have fields (images, mounts, no workdir) that older builds would misread; the new number keeps
    // them out.
    "",
    // The same for spares, which they would take for sandboxes without an owner, and for networks, forks and
    // snapshots.
    "",
    // The same for tenants: older builds would show all sandboxes to every caller.
    "",
    // Tokens, and how many sandboxes each tenant has.
    "CREATE TABLE tokens (id TEXT PRIMARY KEY, document TEXT NOT NULL) WITHOUT ROWID;
     CREATE INDEX tenants_sandboxes ON sandboxes (json_extract(document, '$.tenant'))
         WHERE state NOT IN ('destroyed', 'failed', 'lost');",
    // Answers for repeated requests. The second index bounds what is kept without reading it.
    "CREATE TABLE answers (
         tenant TEXT NOT NULL,
         run TEXT NOT NULL,
         key TEXT NOT NULL,
         question BLOB NOT NULL,
         asked_at INTEGER NOT NULL,
         size INTEGER NOT NULL,
         status INTEGER,
         body BLOB,
         PRIMARY KEY (tenant, run, key)
     );
     CREATE INDEX sizes_of_answers ON answers (tenant, asked_at, size);
     CREATE INDEX times_of_answers ON answers (asked_at);",
    // Events. The newest is never forgotten, so that no number is used twice. Older builds would change sandboxes
    // without writing events.
    "CREATE TABLE events (
         seq INTEGER PRIMARY KEY,
         at INTEGER NOT NULL,
         kind TEXT NOT NULL,
         sandbox TEXT NOT NULL,
         tenant TEXT,
         run TEXT,
         exec TEXT,
         details TEXT NOT NULL
     );
     CREATE UNIQUE INDEX exec_events ON events (sandbox, exec, kind) WHERE exec IS NOT NULL;",
    // Answers in the order they were given, and requests without one in the order they arrived. Existing rows are in
    // that order already.
    "ALTER TABLE answers ADD COLUMN answered INTEGER;
     UPDATE answers SET answered = rowid WHERE status IS NOT NULL;
     DROP INDEX sizes_of_answers;
     CREATE INDEX answers_in_order ON answers (tenant, answered, asked_at, size);",
    // The tenant of each record, so that a query does not read records of others. Ended sandboxes no longer keep an
    // environment.
    "ALTER TABLE sandboxes ADD COLUMN tenant TEXT;
     UPDATE sandboxes SET tenant = json_extract(document, '$.tenant');
     UPDATE sandboxes SET document = json_set(document, '$.spec.env', json('{}'))
         WHERE state IN ('destroyed', 'failed');
     DROP INDEX tenants_sandboxes;
     CREATE INDEX live_of_tenants ON sandboxes (tenant, created_at) WHERE state NOT IN ('destroyed', 'failed');
     CREATE INDEX ended_of_tenants ON sandboxes (tenant, updated_at, id) WHERE state IN ('destroyed', 'failed');",
    // Up to where the events of each owner are forgotten, and the time up to which ends were reported. `*` stands for
    // everyone whose events were forgotten before this step, and the empty name for the home's own people; no tenant
    // can have either.
    "CREATE INDEX events_of_tenants ON events (tenant, seq);
     CREATE TABLE forgotten_events (owner TEXT PRIMARY KEY, seq INTEGER NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID;
     INSERT INTO forgotten_events (owner, seq, until)
         SELECT '*', seq - 1, at FROM events WHERE seq = (SELECT min(seq) FROM events) AND seq > 1;",
    // Tokens may carry bounds, which older builds would ignore; the new number keeps them out.
    "",
    // Which database this is and how many changes it has seen (see `mark`). Older builds would not count.
    "INSERT OR IGNORE INTO facts VALUES ('lineage', lower(hex(randomblob(16)))), ('changes', '0');",
    // Retention goes by observed time, which starts here. Older builds would go by the clock.
    "ALTER TABLE sandboxes ADD COLUMN observed_at INTEGER NOT NULL DEFAULT 0;
     DROP INDEX IF EXISTS ended_sandboxes;
     DROP INDEX ended_of_tenants;
     CREATE INDEX ended_in_order ON sandboxes (observed_at) WHERE state IN ('destroyed', 'failed');
     CREATE INDEX ended_of_tenants ON sandboxes (tenant, observed_at, id) WHERE state IN ('destroyed', 'failed');
     ALTER TABLE events ADD COLUMN observed_at INTEGER NOT NULL DEFAULT 0;
     UPDATE forgotten_events SET until = 0;
     UPDATE answers SET asked_at = 0;",
    // An expired sandbox has ended: its key is free. Older builds do not know the state; the new number keeps them
    // out.
    "DROP INDEX live_keys;
     DROP INDEX live_sandboxes;
     DROP INDEX live_of_tenants;
     DROP INDEX ended_in_order;
     DROP INDEX ended_of_tenants;
     CREATE UNIQUE INDEX live_keys ON sandboxes (key)
         WHERE key IS NOT NULL AND state NOT IN ('destroyed', 'failed', 'expired');
     CREATE INDEX live_sandboxes ON sandboxes (created_at) WHERE state NOT IN ('destroyed', 'failed', 'expired');
     CREATE INDEX live_of_tenants ON sandboxes (tenant, created_at)
         WHERE state NOT IN ('destroyed', 'failed', 'expired');
     CREATE INDEX ended_in_order ON sandboxes (observed_at) WHERE state IN ('destroyed', 'failed', 'expired');
     CREATE INDEX ended_of_tenants ON sandboxes (tenant, observed_at, id)
         WHERE state IN ('destroyed', 'failed', 'expired');",
    // Specs and tokens may have the privileges `debug`, a word older builds cannot read; the new number keeps them
    // out.
    "",
    // For an `IN` list of three, SQLite makes a temporary table each time it checks whether a row belongs into such
    // an index, five times for each written row. Comparisons need no table.
    "DROP INDEX live_keys;
     DROP INDEX live_sandboxes;
     DROP INDEX live_of_tenants;
     DROP INDEX ended_in_order;
     DROP INDEX ended_of_tenants;
     CREATE UNIQUE INDEX live_keys ON sandboxes (key)
         WHERE key IS NOT NULL AND state <> 'destroyed' AND state <> 'failed' AND state <> 'expired';
     CREATE INDEX live_sandboxes ON sandboxes (created_at)
         WHERE state <> 'destroyed' AND state <> 'failed' AND state <> 'expired';
     CREATE INDEX live_of_tenants ON sandboxes (tenant, created_at)
         WHERE state <> 'destroyed' AND state <> 'failed' AND state <> 'expired';
     CREATE INDEX ended_in_order ON sandboxes (observed_at)
         WHERE (state = 'destroyed' OR state = 'failed' OR state = 'expired');
     CREATE INDEX ended_of_tenants ON sandboxes (tenant, observed_at, id)
         WHERE (state = 'destroyed' OR state = 'failed' OR state = 'expired');",
];

/// The version this build writes.
const VERSION: usize = STEPS.len();

/// Brings the schema up to this build's version. Does nothing if it is, and refuses one that is newer.
pub fn bring_up_to_date(home: &Home, connection: &mut Connection, recall: Recall<'_>) -> Result<()> {
    if check(connection)? == VERSION {
        return Ok(());
    }
    // Two processes that find an old schema must not both change it.
    let _lock = home::migration_lock(home)?;
    let done = check(connection)?;
    if done == VERSION {
        return Ok(());
    }
    let id = if done == 0 { Some(found_empty(home, connection, recall)?) } else { None };
    connection.read("turn on the write-ahead log", |sqlite| {
        Ok(sqlite.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))?)
    })?;
    connection
        .write(Durability::Power, "migrate", |transaction| Ok(migrate(transaction, done, id.as_ref())?))?;
    // The loss of the log must not take the schema and the home's id with it.
    connection.read("copy the log back", |sqlite| {
        Ok(sqlite.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    })
}

/// Returns the id of a new home. An older coracle that died leaves a database without tables; in a used home, such a
/// database has lost its log.
fn found_empty(home: &Home, connection: &Connection, recall: Recall<'_>) -> Result<InstanceId> {
    if instance::read(home)?.is_some() || recall()?.is_some() {
        let path = connection.path();
        return Err(error::lost(
            format!("the database `{}` has lost its tables", path.display()),
            error::advice(path),
        ));
    }
    let id = instance::draw()?;
    instance::write(home, &id)?;
    Ok(id)
}

/// Tells whether the database of a home exists with this build's schema. Makes and changes nothing.
pub fn is_current(home: &Home) -> bool {
    let path = home.database();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let version = rusqlite::Connection::open_with_flags(path, flags)
        .and_then(|sqlite| sqlite.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)));
    version.is_ok_and(|version| usize::try_from(version) == Ok(VERSION))
}

/// Makes all tables in an empty database.
pub fn fill(sqlite: &rusqlite::Connection, id: &InstanceId) -> rusqlite::Result<()> {
    let transaction = sqlite.unchecked_transaction()?;
    migrate(&transaction, 0, Some(id))?;
    transaction.commit()
}

fn check(connection: &Connection) -> Result<usize> {
    let found = connection.read("read the schema version", |sqlite| {
        Ok(sqlite.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?)
    })?;
    usize::try_from(found).ok().filter(|found| *found <= VERSION).ok_or_else(|| {
        Error::new(
            Kind::Unsupported,
            format!("the home has schema {found}, this coracle knows up to {VERSION}"),
        )
        .hint("a newer coracle has used this home: use that one, or choose another home with `--home`")
        .detail("schema", found)
        .detail("supported", VERSION)
    })
}

fn migrate(transaction: &Transaction<'_>, done: usize, id: Option<&InstanceId>) -> rusqlite::Result<()> {
    for step in &STEPS[done..] {
        transaction.execute_batch(step)?;
    }
    if let Some(id) = id {
        transaction.execute("INSERT INTO facts VALUES ('instance', ?1)", [id.as_str()])?;
    }
    transaction.pragma_update(None, "user_version", VERSION as i64)
}

#[cfg(test)]
mod tests {
    use super::super::SqliteStore;
    use super::*;

    #[test]
    fn only_a_home_of_this_version_is_current_and_looking_changes_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let home = Home::at(directory.path());
        assert!(!is_current(&home));
        assert_eq!(home.path().read_dir().expect("ours").count(), 0);
        drop(SqliteStore::open(home.path()).expect("a store"));
        assert!(is_current(&home));

        let sqlite = rusqlite::Connection::open(home.database()).expect("a database");
        sqlite.pragma_update(None, "user_version", VERSION as i64 - 1).expect("ours");

        assert!(!is_current(&home));
        let left = sqlite.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
        assert_eq!(left.ok(), Some(VERSION as i64 - 1));
    }
}
