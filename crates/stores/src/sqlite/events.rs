//! Events as rows, numbered by SQLite. Readers see them in the order of their numbers, and none appears later with a
//! lower number, because SQLite lets writers in one at a time.

use coracle_core::clock::Timestamp;
use coracle_core::error::Error;
use coracle_core::event::{self, End, Event, Filter, Kind, Numbered, Page};
use coracle_core::ids::{ExecId, SandboxId};
use coracle_core::record::Record;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::connection::{Answer, Failure};

/// Stands for the sandbox where an event is about the home. No id is empty.
const HOME: &str = "";

/// Appends events; of reports of an exec's start or end, only the first is kept.
pub fn append(connection: &Connection, reported: &[Event]) -> Answer<()> {
    // Once the first report of an end is forgotten, only the time of the end tells a repeated report from a new one.
    // Owner `*` stands for all who had events forgotten before this was recorded for each owner.
    let sql = "INSERT INTO events (at, kind, sandbox, tenant, run, exec, details, observed_at)
               SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8
               WHERE ?6 IS NULL OR NOT EXISTS (
                   SELECT 1 FROM forgotten_events WHERE owner IN ('*', coalesce(?4, '')) AND until > ?8)
               ON CONFLICT (sandbox, exec, kind) WHERE exec IS NOT NULL DO NOTHING";
    for event in reported {
        connection.prepare_cached(sql)?.execute(params![
            column(event.at.as_millis()),
            event.kind.as_str(),
            sandbox(event),
            event.tenant.as_ref().map(|tenant| tenant.as_str()),
            event.run.as_ref().map(|run| run.as_str()),
            event.exec_id.as_ref().map(ExecId::as_str),
            written(event)?,
            column(event.observed.as_millis()),
        ])?;
    }
    Ok(())
}

/// Tells whether all of these events are stored already.
pub fn are_known(connection: &Connection, reported: &[Event]) -> Answer<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM events WHERE sandbox = ?1 AND exec = ?2 AND kind = ?3)";
    let mut statement = connection.prepare_cached(sql)?;
    for event in reported {
        let Some(exec) = &event.exec_id else { return Ok(false) };
        let key = params![sandbox(event), exec.as_str(), event.kind.as_str()];
        if !statement.query_row(key, |row| row.get(0))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Adds the end of the execs of an ended sandbox, where none was reported.
pub fn end_execs(connection: &Connection, record: &Record) -> Answer<()> {
    let sql = "SELECT exec FROM events AS started WHERE sandbox = ?1 AND exec IS NOT NULL AND kind = 'exec_started'
               AND NOT EXISTS (SELECT 1 FROM events WHERE sandbox = ?1 AND exec = started.exec AND kind = 'exec_ended')
               ORDER BY seq";
    let mut statement = connection.prepare_cached(sql)?;
    let running = statement.query_map([record.id.as_str()], |row| row.get::<_, String>(0))?;
    let mut reported = Vec::new();
    for exec in running {
        reported.push(event::exec_ended(record, &exec?.parse()?, record.moment(), &End::UNSEEN));
    }
    append(connection, &reported)
}

pub fn page(connection: &Connection, since: u64, filter: &Filter, max: usize) -> Answer<Page> {
    // One transaction sees one moment; two statements might miss what is forgotten between them.
    let snapshot = connection.unchecked_transaction()?;
    let mut page = Page { next: newest(&snapshot)?.max(since), ..Page::default() };
    let sql = "SELECT seq, at, kind, sandbox, tenant, run, exec, details, observed_at FROM events
               WHERE seq > ?1 AND (?2 IS NULL OR tenant = ?2) AND (?3 IS NULL OR sandbox = ?3) AND at >= ?4
                     AND (?5 IS NULL OR exec = ?5)
               ORDER BY seq";
    let mut statement = snapshot.prepare_cached(sql)?;
    let mut rows = statement.query(params![
        column(since),
        filter.tenant.as_ref().map(|tenant| tenant.as_str()),
        filter.sandbox.as_ref().map(|sandbox| sandbox.as_str()),
        filter.from.map_or(0, |from| column(from.as_millis())),
        filter.exec.as_ref().map(|exec| exec.as_str()),
    ])?;
    while let Some(row) = rows.next()? {
        let Some(numbered) = read(row)?.filter(|numbered| filter.admits(&numbered.event)) else { continue };
        if page.events.len() == max {
            page.next = page.events.last().map_or(since, |last| last.seq);
            break;
        }
        page.events.push(numbered);
    }
    page.forgotten = forgotten(&snapshot, filter)?.min(page.next);
    Ok(page)
}

pub fn newest(connection: &Connection) -> Answer<u64> {
    let sql = "SELECT max(seq) FROM events";
    let newest: Option<i64> = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(number(newest.unwrap_or(0)))
}

pub fn forget(connection: &Connection, before: Timestamp, keep: u64) -> Answer<u64> {
    // The newest event stays, whatever its age and owner: its number must not be used again.
    let newest = newest(connection)?;
    let sql = "SELECT seq FROM events WHERE observed_at >= ?1 ORDER BY seq LIMIT 1";
    let before = column(before.as_millis());
    let young: Option<i64> =
        connection.prepare_cached(sql)?.query_row([before], |row| row.get(0)).optional()?;
    let first = young.map_or(newest, number);
    let owners = owners(connection, first)?;
    let share = event::share(owners.iter().map(|owner| owner.young).collect(), keep);
    let mut gone = 0;
    for owner in owners {
        let surplus = owner.old + owner.young.saturating_sub(share);
        gone += owner.forget(connection, surplus, newest, before)?;
    }
    Ok(gone)
}

/// An owner of events, with how many it has before a number and from there on.
struct Owner {
    tenant: Option<String>,
    old: u64,
    young: u64,
}

impl Owner {
    /// Forgets the owner's oldest events, and notes up to where; events left of other owners do not tell.
    fn forget(&self, connection: &Connection, surplus: u64, newest: u64, before: i64) -> Answer<u64> {
        let sql = "SELECT max(seq) FROM (
                       SELECT seq FROM events WHERE tenant IS ?1 AND seq < ?2 ORDER BY seq LIMIT ?3)";
        let key = params![self.tenant, column(newest), column(surplus)];
        let last: Option<i64> = connection.prepare_cached(sql)?.query_row(key, |row| row.get(0))?;
        let Some(last) = last else { return Ok(0) };
        let sql = "DELETE FROM events WHERE tenant IS ?1 AND seq <= ?2";
        let gone = connection.prepare_cached(sql)?.execute(params![self.tenant, last])?;
        let sql = "INSERT INTO forgotten_events (owner, seq, until)
                   VALUES (coalesce(?1, ''), ?2,
                       coalesce((SELECT observed_at FROM events WHERE tenant IS ?1 ORDER BY seq LIMIT 1), ?3))
                   ON CONFLICT (owner) DO UPDATE SET seq = excluded.seq, until = excluded.until";
        connection.prepare_cached(sql)?.execute(params![self.tenant, last, before])?;
        Ok(gone as u64)
    }
}

fn owners(connection: &Connection, first: u64) -> Answer<Vec<Owner>> {
    let sql = "SELECT tenant, count(*) FILTER (WHERE seq < ?1), count(*) FILTER (WHERE seq >= ?1)
               FROM events GROUP BY tenant";
    let mut statement = connection.prepare_cached(sql)?;
    let owners = statement.query_map([column(first)], |row| {
        Ok(Owner { tenant: row.get(0)?, old: number(row.get(1)?), young: number(row.get(2)?) })
    })?;
    Ok(owners.collect::<rusqlite::Result<_>>()?)
}

/// Returns up to which number events that a filter may admit are forgotten.
fn forgotten(connection: &Connection, filter: &Filter) -> Answer<u64> {
    let sql = "SELECT max(seq) FROM forgotten_events WHERE ?1 IS NULL OR owner IN ('*', ?1)";
    let tenant = filter.tenant.as_ref().map(|tenant| tenant.as_str());
    let seq: Option<i64> = connection.prepare_cached(sql)?.query_row([tenant], |row| row.get(0))?;
    Ok(number(seq.unwrap_or(0)))
}

/// Returns the event of a row; `None` if a newer coracle wrote a kind that this one does not know.
fn read(row: &Row<'_>) -> Answer<Option<Numbered>> {
    let Some(kind) = Kind::named(&row.get::<_, String>(2)?) else { return Ok(None) };
    let event = Event {
        at: Timestamp::from_millis(number(row.get(1)?)),
        kind,
        sandbox_id: Some(row.get::<_, String>(3)?)
            .filter(|id| id != HOME)
            .map(|id| id.parse())
            .transpose()?,
        tenant: row.get::<_, Option<String>>(4)?.map(|tenant| tenant.parse()).transpose()?,
        run: row.get::<_, Option<String>>(5)?.map(|run| run.parse()).transpose()?,
        exec_id: row.get::<_, Option<String>>(6)?.map(|exec| exec.parse()).transpose()?,
        details: serde_json::from_str(&row.get::<_, String>(7)?).map_err(unreadable)?,
        observed: Timestamp::from_millis(number(row.get(8)?)),
    };
    Ok(Some(Numbered { seq: number(row.get(0)?), event }))
}

/// Returns the value of the `sandbox` column.
fn sandbox(event: &Event) -> &str {
    event.sandbox_id.as_ref().map_or(HOME, SandboxId::as_str)
}

fn written(event: &Event) -> Answer<String> {
    let text = serde_json::to_string(&event.details);
    text.map_err(|error| Error::internal("could not write down an event", error).into())
}

fn unreadable(error: serde_json::Error) -> Failure {
    Error::internal("could not read an event", error)
        .hint("the database was changed by something else; move it away and run `coracle gc`")
        .into()
}

/// SQLite's integers are signed; numbers and times stay far below their limit.
fn column(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
