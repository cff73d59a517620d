//! Records as rows: columns for what queries search, and the whole record as one JSON document.

use std::collections::BTreeSet;

use coracle_core::clock::Timestamp;
use coracle_core::error::{Error, Kind};
use coracle_core::ids::{SandboxId, SessionKey, TenantId};
use coracle_core::lifecycle::State;
use coracle_core::record::Record;
use coracle_core::store::{Population, Quota, Which};
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::connection::Answer;

/// The conditions for ended and live rows, as SQL. Written as in the schema's indexes, or SQLite does not use them;
/// and not as a list, for which SQLite would make a temporary table each time.
macro_rules! ended {
    () => {
        "(state = 'destroyed' OR state = 'failed' OR state = 'expired')"
    };
}
macro_rules! live {
    () => {
        "state <> 'destroyed' AND state <> 'failed' AND state <> 'expired'"
    };
}

const INSERT: &str = "INSERT INTO sandboxes
         (id, state, key, epoch, created_at, updated_at, document, tenant, observed_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const UPDATE: &str =
    "UPDATE sandboxes SET state = ?2, key = ?3, epoch = ?4, created_at = ?5, updated_at = ?6,
         document = ?7, tenant = ?8, observed_at = ?9
     WHERE id = ?1";

pub fn find(connection: &Connection, id: &SandboxId) -> Answer<Option<Record>> {
    one(connection, "SELECT document FROM sandboxes WHERE id = ?1", [id.as_str()])
}

pub fn find_key(
    connection: &Connection,
    tenant: Option<&TenantId>,
    key: &SessionKey,
) -> Answer<Option<Record>> {
    let sql = concat!("SELECT document FROM sandboxes WHERE key = ?1 AND ", live!());
    one(connection, sql, [key_of(tenant, key)])
}

pub fn list(connection: &Connection, which: Which) -> Answer<Vec<Record>> {
    let sql = match which {
        Which::Live => {
            concat!("SELECT document FROM sandboxes WHERE ", live!(), " ORDER BY created_at, id")
        }
        Which::Shown { .. } | Which::All => "SELECT document FROM sandboxes ORDER BY created_at, id",
    };
    let mut records = many(connection, sql, [])?;
    if let Which::Shown { expired_since } = which {
        records.retain(|record: &Record| {
            let expired = record.state == State::Expired && record.observed_at >= expired_since;
            record.state.is_live() || expired
        });
    }
    Ok(records)
}

pub fn newest(
    connection: &Connection,
    tenant: Option<&TenantId>,
    which: Which,
    max: usize,
) -> Answer<Vec<Record>> {
    // Two queries, because there is an index for each. Documents may be long: only the wanted ones are read.
    let whose = if tenant.is_some() { "tenant = ?1" } else { "?1 IS NULL" };
    let part = |state: &str| {
        format!("SELECT id, created_at FROM sandboxes WHERE {state} AND {whose} AND state <> 'spare'")
    };
    let parts = match which {
        Which::Live => part(live!()),
        Which::All => format!("{} UNION ALL {}", part(live!()), part(ended!())),
        Which::Shown { expired_since } => {
            let since = column(expired_since.as_millis());
            format!(
                "{} UNION ALL {} AND state = 'expired' AND observed_at >= {since}",
                part(live!()),
                part(ended!())
            )
        }
    };
    let sql = format!(
        "SELECT document FROM sandboxes WHERE id IN (
             SELECT id FROM ({parts}) ORDER BY created_at DESC, id DESC LIMIT ?2)
         ORDER BY created_at DESC, id DESC"
    );
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let mut records = Vec::new();
    each(connection, &sql, params![tenant.map(TenantId::as_str), max], |mut record| {
        record.spec.env.clear();
        records.push(record);
    })?;
    Ok(records)
}

pub fn count(connection: &Connection, tenant: &TenantId) -> Answer<Population> {
    let sql = concat!(
        "SELECT count(*) FILTER (WHERE state <> 'hibernated'), count(*) FILTER (WHERE state = 'hibernated')
         FROM sandboxes WHERE tenant = ?1 AND ",
        live!(),
        " AND state <> 'lost'"
    );
    let number = |count: i64| usize::try_from(count).unwrap_or(0);
    let (places, asleep) = connection
        .prepare_cached(sql)?
        .query_row([tenant.as_str()], |row| Ok((number(row.get(0)?), number(row.get(1)?))))?;
    Ok(Population { places, asleep })
}

/// Refuses to have a record take a place of a tenant that has none left.
pub fn check_quota(connection: &Connection, quota: Option<Quota>, tenant: Option<&TenantId>) -> Answer<()> {
    match (quota, tenant) {
        (Some(quota), Some(tenant)) => Ok(quota.admit(count(connection, tenant)?)?),
        _ => Ok(()),
    }
}

pub fn ended_on(connection: &Connection, since: Timestamp) -> Answer<BTreeSet<String>> {
    let sql = concat!(
        "SELECT DISTINCT json_extract(document, '$.backend') FROM sandboxes WHERE ",
        ended!(),
        " AND observed_at >= ?1"
    );
    let mut statement = connection.prepare_cached(sql)?;
    let names = statement.query_map([column(since.as_millis())], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

pub fn insert(connection: &Connection, record: &Record) -> Answer<()> {
    if find(connection, &record.id)?.is_some() {
        return Err(Error::new(Kind::Conflict, format!("there is a sandbox `{}` already", record.id)).into());
    }
    write(connection, INSERT, record)
}

pub fn replace(connection: &Connection, id: &SandboxId, record: &Record) -> Answer<()> {
    if record.id != *id {
        return Err(
            Error::new(Kind::Internal, format!("sandbox `{id}` was to become `{}`", record.id)).into()
        );
    }
    if let (Some(key), true) = (&record.key, record.state.is_live())
        && let Some(other) = find_key(connection, record.tenant.as_ref(), key)?
        && other.id != *id
    {
        return Err(Error::new(
            Kind::Conflict,
            format!("session key `{key}` is taken by sandbox `{}`", other.id),
        )
        .into());
    }
    write(connection, UPDATE, record)
}

pub fn forget(connection: &Connection, before: Timestamp, keep: usize) -> Answer<usize> {
    let sql = concat!("DELETE FROM sandboxes WHERE ", ended!(), " AND observed_at < ?1");
    let old = connection.prepare_cached(sql)?.execute([column(before.as_millis())])?;
    let sql = concat!(
        "DELETE FROM sandboxes WHERE id IN (SELECT id FROM (
             SELECT id, row_number() OVER (PARTITION BY tenant ORDER BY observed_at DESC, id DESC) AS place
             FROM sandboxes WHERE ",
        ended!(),
        ") WHERE place > ?1)"
    );
    let many = connection.prepare_cached(sql)?.execute([i64::try_from(keep).unwrap_or(i64::MAX)])?;
    Ok(old + many)
}

fn write(connection: &Connection, sql: &str, record: &Record) -> Answer<()> {
    let document = serde_json::to_string(record)
        .map_err(|error| Error::internal(format!("could not write down sandbox `{}`", record.id), error))?;
    connection.prepare_cached(sql)?.execute(params![
        record.id.as_str(),
        record.state.as_str(),
        record.key.as_ref().map(|key| key_of(record.tenant.as_ref(), key)),
        column(record.lease.epoch().0),
        column(record.created_at.as_millis()),
        column(record.updated_at.as_millis()),
        document,
        record.tenant.as_ref().map(TenantId::as_str),
        column(record.observed_at.as_millis()),
    ])?;
    Ok(())
}

fn one(connection: &Connection, sql: &str, params: impl Params) -> Answer<Option<Record>> {
    let document: Option<String> =
        connection.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?;
    document.map(|document| decode(&document)).transpose()
}

fn many(connection: &Connection, sql: &str, params: impl Params) -> Answer<Vec<Record>> {
    let mut records = Vec::new();
    each(connection, sql, params, |record| records.push(record))?;
    Ok(records)
}

fn each(connection: &Connection, sql: &str, params: impl Params, mut take: impl FnMut(Record)) -> Answer<()> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        take(decode(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?);
    }
    Ok(())
}

fn decode(document: &str) -> Answer<Record> {
    Ok(serde_json::from_str(document).map_err(|error| {
        Error::internal("could not read a sandbox's record", error)
            .hint("the database was changed by something else; move it away and run `coracle gc`")
    })?)
}

/// Returns the value of the `key` column. Keys contain no control characters, so keys of two tenants never collide.
fn key_of(tenant: Option<&TenantId>, key: &SessionKey) -> String {
    match tenant {
        Some(tenant) => format!("{tenant}\n{key}"),
        None => key.as_str().to_owned(),
    }
}

/// SQLite's integers are signed. A larger value only sorts last; the document has the exact one.
fn column(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use coracle_core::home::Home;

    use super::super::SqliteStore;
    use super::*;

    fn explained(sqlite: &Connection, sql: &str, column: &str) -> Vec<String> {
        let mut statement = sqlite.prepare(sql).expect("it can be explained");
        // A query that is only explained needs no values.
        let rows = statement.raw_query().mapped(|row| row.get::<_, String>(column));
        rows.collect::<rusqlite::Result<_>>().expect("text")
    }

    /// Each temporary table costs hundreds of kilobytes, touched once: most of the cost of writing a row.
    #[test]
    fn writing_a_row_makes_no_table_of_its_own() {
        let home = tempfile::tempdir().expect("a directory");
        drop(SqliteStore::open(home.path()).expect("a store"));
        let sqlite = Connection::open(Home::at(home.path()).database()).expect("a database");

        for sql in [INSERT, UPDATE] {
            let steps = explained(&sqlite, &format!("EXPLAIN {sql}"), "opcode");
            let tables = steps.iter().filter(|step| *step == "OpenEphemeral").count();
            assert_eq!((tables, steps.is_empty()), (0, false), "{sql}");
        }
    }

    #[test]
    fn what_is_live_and_what_has_ended_is_found_by_its_index() {
        let home = tempfile::tempdir().expect("a directory");
        drop(SqliteStore::open(home.path()).expect("a store"));
        let sqlite = Connection::open(Home::at(home.path()).database()).expect("a database");

        for (index, rest) in [
            ("live_keys", concat!("key = 'k' AND ", live!())),
            ("live_sandboxes", concat!(live!(), " ORDER BY created_at")),
            ("live_of_tenants", concat!("tenant = 't' AND ", live!())),
            ("ended_in_order", concat!(ended!(), " AND observed_at < 5")),
            ("ended_of_tenants", concat!("tenant = 't' AND ", ended!(), " ORDER BY observed_at")),
        ] {
            let sql = format!("EXPLAIN QUERY PLAN SELECT id FROM sandboxes WHERE {rest}");
            let plan = explained(&sqlite, &sql, "detail");
            assert!(plan.iter().any(|step| step.contains(index)), "{index}: {plan:?}");
        }
    }
}
