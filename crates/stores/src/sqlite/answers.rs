//! Answers as rows, one for each key of each run of each tenant.

use coracle_core::answer::{Answer, Asked, Bounds, Fingerprint, Recalled};
use coracle_core::clock::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::connection::Answer as Outcome;

pub fn ask(
    connection: &Connection,
    asked: &Asked,
    question: &Fingerprint,
    now: Timestamp,
) -> Outcome<Recalled> {
    let sql = "SELECT question, status, body FROM answers WHERE tenant = ?1 AND run = ?2 AND key = ?3";
    let known = connection
        .prepare_cached(sql)?
        .query_row(params![tenant(asked), asked.run.as_str(), asked.key.as_str()], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Option<u16>>(1)?, row.get::<_, Option<Vec<u8>>>(2)?))
        })
        .optional()?;
    match known {
        None => note(connection, asked, question, now).map(|()| Recalled::New),
        Some((other, _, _)) if other != question => Ok(Recalled::Other),
        Some((_, Some(status), Some(body))) => Ok(Recalled::Answered(Answer { status, body })),
        Some(_) => Ok(Recalled::Unanswered),
    }
}

fn note(connection: &Connection, asked: &Asked, question: &Fingerprint, now: Timestamp) -> Outcome<()> {
    let sql =
        "INSERT INTO answers (tenant, run, key, question, asked_at, size) VALUES (?1, ?2, ?3, ?4, ?5, 0)";
    let at = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let key = asked.key.as_str();
    connection.prepare_cached(sql)?.execute(params![tenant(asked), asked.run.as_str(), key, question, at])?;
    Ok(())
}

/// Forgets the oldest requests without an answer; never the one noted last.
pub fn shed_unanswered(connection: &Connection, asked: &Asked, bounds: Bounds) -> Outcome<()> {
    let sql = "DELETE FROM answers WHERE rowid IN (
                   SELECT rowid FROM answers WHERE tenant = ?1 AND answered IS NULL AND rowid <> ?2
                   ORDER BY asked_at DESC LIMIT -1 OFFSET ?3)";
    let noted = connection.last_insert_rowid();
    let others = i64::try_from(bounds.keys.saturating_sub(1)).unwrap_or(i64::MAX);
    connection.prepare_cached(sql)?.execute(params![tenant(asked), noted, others])?;
    Ok(())
}

pub fn answer(connection: &Connection, asked: &Asked, answer: &Answer, bounds: Bounds) -> Outcome<()> {
    // Answers are numbered, because clocks are set back and two answers may have the same time.
    let sql = "UPDATE answers SET status = ?4, body = ?5, size = ?6,
                   answered = (SELECT coalesce(max(answered), 0) + 1 FROM answers WHERE tenant = ?1)
               WHERE tenant = ?1 AND run = ?2 AND key = ?3";
    let size = i64::try_from(answer.body.len()).unwrap_or(i64::MAX);
    connection.prepare_cached(sql)?.execute(params![
        tenant(asked),
        asked.run.as_str(),
        asked.key.as_str(),
        answer.status,
        answer.body,
        size
    ])?;
    shed_answered(connection, asked, bounds)
}

/// Forgets the oldest answers until the rest fits; never the newest, which is this one.
fn shed_answered(connection: &Connection, asked: &Asked, bounds: Bounds) -> Outcome<()> {
    let (mut keys, mut bytes) = taken(connection, asked)?;
    let beyond = |count: i64, most: usize| usize::try_from(count).unwrap_or(usize::MAX) > most;
    let sql =
        "SELECT answered, size FROM answers WHERE tenant = ?1 AND answered IS NOT NULL ORDER BY answered";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([tenant(asked)])?;
    let mut last = 0;
    while keys > 1 && (beyond(keys, bounds.keys) || beyond(bytes, bounds.bytes)) {
        let Some(row) = rows.next()? else { break };
        last = row.get(0)?;
        bytes -= row.get::<_, i64>(1)?;
        keys -= 1;
    }
    let sql = "DELETE FROM answers WHERE tenant = ?1 AND answered <= ?2";
    connection.prepare_cached(sql)?.execute(params![tenant(asked), last])?;
    Ok(())
}

/// Returns how many answers a tenant has, and their size.
fn taken(connection: &Connection, asked: &Asked) -> Outcome<(i64, i64)> {
    let sql =
        "SELECT count(*), coalesce(sum(size), 0) FROM answers WHERE tenant = ?1 AND answered IS NOT NULL";
    Ok(connection.prepare_cached(sql)?.query_row([tenant(asked)], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

pub fn withdraw(connection: &Connection, asked: &Asked) -> Outcome<()> {
    let sql = "DELETE FROM answers WHERE tenant = ?1 AND run = ?2 AND key = ?3";
    let key = asked.key.as_str();
    connection.prepare_cached(sql)?.execute(params![tenant(asked), asked.run.as_str(), key])?;
    Ok(())
}

pub fn forget(connection: &Connection, before: Timestamp) -> Outcome<usize> {
    let at = i64::try_from(before.as_millis()).unwrap_or(i64::MAX);
    Ok(connection.prepare_cached("DELETE FROM answers WHERE asked_at < ?1")?.execute([at])?)
}

/// The home's own people are the empty name, which no tenant can have.
fn tenant(asked: &Asked) -> &str {
    asked.tenant.as_ref().map_or("", |tenant| tenant.as_str())
}
