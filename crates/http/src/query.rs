//! Turns words of a path or a query into values of an operation's input.

use axum::extract::{Path, Query};
use coracle::{Error, Result};
use serde_json::{Map, Value};

/// All pairs of a query, unparsed.
pub type Pairs = Query<Vec<(String, String)>>;
/// All names of a path, unparsed.
pub type Names = Path<Vec<(String, String)>>;

/// Puts words into an input, each once, with the type that the schema of its field demands.
pub fn put(input: &mut Map<String, Value>, fields: &Value, pairs: Vec<(String, String)>) -> Result<()> {
    for (name, text) in pairs {
        let value = value(&fields[&name], text);
        if input.insert(name.clone(), value).is_some() {
            return Err(Error::invalid(&shown(&name), "appears twice"));
        }
    }
    Ok(())
}

/// Returns a word as a number or a boolean where the schema has one; other text stays text, and the operation refuses
/// it by the field's name.
fn value(schema: &Value, text: String) -> Value {
    if is(schema, "integer")
        && let Ok(number) = text.parse::<u64>()
    {
        return number.into();
    }
    match text.as_str() {
        "true" if is(schema, "boolean") => true.into(),
        "false" if is(schema, "boolean") => false.into(),
        _ if is(schema, "array") => text.split(',').map(str::to_owned).collect(),
        _ => text.into(),
    }
}

fn is(schema: &Value, kind: &str) -> bool {
    let types = &schema["type"];
    types == kind || types.as_array().is_some_and(|types| types.iter().any(|one| one == kind))
}

/// Returns the beginning of a client's name for something, without terminal control characters.
fn shown(name: &str) -> String {
    name.escape_debug().take(64).collect()
}
