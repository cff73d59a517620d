//! Words of a path or a query as the values an operation's input has.

use axum::extract::{Path, Query};
use coracle::{Error, Result};
use serde_json::{Map, Value};

/// All pairs of a query, as they were written.
pub type Pairs = Query<Vec<(String, String)>>;
/// All names of a path, as they were written.
pub type Names = Path<Vec<(String, String)>>;

/// Puts words into an input, each once, as what the schemas of its fields call for.
pub fn put(input: &mut Map<String, Value>, fields: &Value, pairs: Vec<(String, String)>) -> Result<()> {
    for (name, text) in pairs {
        let value = value(&fields[&name], text);
        if input.insert(name.clone(), value).is_some() {
            return Err(Error::invalid(&shown(&name), "stands twice"));
        }
    }
    Ok(())
}

/// Returns a word as a number or a truth where the schema has one there; what is none stays text and is refused with
/// the field's name by whoever reads the input.
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

/// Returns the beginning of a name somebody made up, without what a terminal would obey.
fn shown(name: &str) -> String {
    name.escape_debug().take(64).collect()
}
