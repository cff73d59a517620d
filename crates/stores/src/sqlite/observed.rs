//! The time this home was observed for, as one fact all processes count on from.

use coracle_core::error::Error;
use coracle_core::observed::{Anchor, Reading};
use rusqlite::{Connection, OptionalExtension};

use super::connection::Answer;

/// Returns where counting stands; nothing in a home that has not begun.
pub fn read(connection: &Connection) -> Answer<Option<Anchor>> {
    let sql = "SELECT value FROM facts WHERE name = 'observed'";
    let text: Option<String> = connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    // What cannot be read is begun anew: everything is kept longer then.
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Counts on, and returns where counting stands then.
pub fn advance(connection: &Connection, reading: &Reading) -> Answer<Anchor> {
    let anchor = match read(connection)? {
        Some(anchor) => anchor.moved(reading),
        None => Anchor::first(reading),
    };
    let text = serde_json::to_string(&anchor)
        .map_err(|error| Error::internal("could not write down the observed time", error))?;
    let sql = "INSERT INTO facts VALUES ('observed', ?1)
               ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute([text])?;
    Ok(anchor)
}
