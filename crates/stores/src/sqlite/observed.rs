//! The observed time of this home, as one row that all processes count on from.

use coracle_core::error::Error;
use coracle_core::observed::{Anchor, Reading};
use rusqlite::{Connection, OptionalExtension};

use super::connection::Answer;

/// Returns the anchor; `None` in a home that has not started to count.
pub fn read(connection: &Connection) -> Answer<Option<Anchor>> {
    let sql = "SELECT value FROM facts WHERE name = 'observed'";
    let text: Option<String> = connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    // An unreadable anchor starts anew: everything is then kept longer.
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Advances the anchor and returns it.
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
