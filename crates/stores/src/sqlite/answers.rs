//! Answers as rows, one for each key of each run of each tenant.

use coracle_core::answer::{Answer, Asked, Bounds, Fingerprint, Recalled};
use coracle_core::clock::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::connection::Answer as Outcome;

/// How many are forgotten at once where there are too many.
const PORTION: usize = 64;

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

pub fn answer(connection: &Connection, asked: &Asked, answer: &Answer, bounds: Bounds) -> Outcome<()> {
    let sql =
        "UPDATE answers SET status = ?4, body = ?5, size = ?6 WHERE tenant = ?1 AND run = ?2 AND key = ?3";
    let size = i64::try_from(answer.body.len()).unwrap_or(i64::MAX);
    connection.prepare_cached(sql)?.execute(params![
        tenant(asked),
        asked.run.as_str(),
        asked.key.as_str(),
        answer.status,
        answer.body,
        size
    ])?;
    while exceeds(connection, asked, bounds)? && shed(connection, asked)? > 0 {}
    Ok(())
}

fn exceeds(connection: &Connection, asked: &Asked, bounds: Bounds) -> Outcome<bool> {
    let sql = "SELECT count(*), coalesce(sum(size), 0) FROM answers WHERE tenant = ?1";
    let (keys, bytes): (i64, i64) =
        connection.prepare_cached(sql)?.query_row([tenant(asked)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let beyond = |count: i64, most: usize| usize::try_from(count).unwrap_or(usize::MAX) > most;
    Ok(beyond(keys, bounds.keys) || beyond(bytes, bounds.bytes))
}

/// Forgets the oldest. What has no answer yet is under way, or somebody has to be told that it was cut off.
fn shed(connection: &Connection, asked: &Asked) -> Outcome<usize> {
    let sql = format!(
        "DELETE FROM answers WHERE rowid IN (SELECT rowid FROM answers
         WHERE tenant = ?1 AND status IS NOT NULL ORDER BY asked_at LIMIT {PORTION})"
    );
    Ok(connection.prepare_cached(&sql)?.execute([tenant(asked)])?)
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

/// The home's own people have no name, and no tenant has an empty one.
fn tenant(asked: &Asked) -> &str {
    asked.tenant.as_ref().map_or("", |tenant| tenant.as_str())
}
