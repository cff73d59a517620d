//! Tokens as rows: the id, and the rest as one JSON document.

use coracle_core::clock::Timestamp;
use coracle_core::error::{Error, Kind};
use coracle_core::ids::TokenId;
use coracle_core::token::{self, Token};
use rusqlite::{Connection, OptionalExtension, params};

use super::connection::Answer;

pub fn add(connection: &Connection, token: &Token) -> Answer<()> {
    if find(connection, &token.id)?.is_some() {
        return Err(Error::new(Kind::Conflict, format!("there is a token `{}` already", token.id)).into());
    }
    write(connection, "INSERT INTO tokens (id, document) VALUES (?1, ?2)", token)
}

pub fn find(connection: &Connection, id: &TokenId) -> Answer<Option<Token>> {
    let document: Option<String> = connection
        .prepare_cached("SELECT document FROM tokens WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    document.map(|document| decode(&document)).transpose()
}

/// Ids sort by the time of creation.
pub fn list(connection: &Connection) -> Answer<Vec<Token>> {
    let mut statement = connection.prepare_cached("SELECT document FROM tokens ORDER BY id")?;
    let documents = statement.query_map([], |row| row.get::<_, String>(0))?;
    documents.map(|document| decode(&document?)).collect()
}

pub fn revoke(connection: &Connection, id: &TokenId, now: Timestamp) -> Answer<Token> {
    let mut token = find(connection, id)?.ok_or_else(|| token::unknown(id))?;
    token.revoked_at.get_or_insert(now);
    write(connection, "UPDATE tokens SET document = ?2 WHERE id = ?1", &token)?;
    Ok(token)
}

fn write(connection: &Connection, sql: &str, token: &Token) -> Answer<()> {
    let document = serde_json::to_string(token)
        .map_err(|error| Error::internal(format!("could not write down token `{}`", token.id), error))?;
    connection.prepare_cached(sql)?.execute(params![token.id.as_str(), document])?;
    Ok(())
}

fn decode(document: &str) -> Answer<Token> {
    Ok(serde_json::from_str(document).map_err(|error| {
        Error::internal("could not read a token", error)
            .hint("the database was changed by something else; revoke the tokens there are and make new ones")
    })?)
}
