//! Schemas as models take them: a plain object at the root, self-contained, without words only Rust knows.

use serde_json::{Map, Value, json};

type Schema = Map<String, Value>;

/// Returns the schema of what a tool takes.
pub fn of_input(mut schema: Schema) -> Schema {
    tidy(&mut schema);
    schema
}

/// Returns the schema of what a tool answers: its output, or the error object.
///
/// Clients hold failures to it, too, and show their user nothing of an answer that does not fit.
pub fn of_output(mut schema: Schema) -> Schema {
    tidy(&mut schema);
    let required = schema.remove("required").unwrap_or_else(|| json!([]));
    schema.insert("anyOf".to_owned(), json!([{"required": required}, {"required": ["error"]}]));
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        let own = properties.remove("error");
        let error = match own {
            // `sandbox_run` says under the same name why a program did not end by itself.
            Some(own) => json!({"anyOf": [own, error()]}),
            None => error(),
        };
        properties.insert("error".to_owned(), error);
    }
    schema
}

/// Keeps some fields of a schema, and the definitions those refer to.
pub fn keep(schema: &mut Schema, keeps: impl Fn(&str) -> bool) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|field, _| keeps(field));
    }
    schema.insert("additionalProperties".to_owned(), json!(false));
    loop {
        let text = Value::Object(schema.clone()).to_string();
        let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) else { return };
        let before = definitions.len();
        definitions.retain(|name, _| text.contains(&format!("\"#/$defs/{name}\"")));
        match definitions.len() {
            0 => drop(schema.remove("$defs")),
            left if left == before => return,
            _ => {}
        }
    }
}

/// The object under `error`, as every door shows it.
fn error() -> Value {
    json!({
        "type": "object",
        "description": "Why it was not done.",
        "properties": {
            "kind": {"type": "string", "description": "What kind of failure it is; these words are stable."},
            "message": {"type": "string"},
            "hint": {"type": ["string", "null"], "description": "What to do about it."},
            "details": {"type": "object"},
        },
        "required": ["kind", "message"],
    })
}

fn tidy(schema: &mut Schema) {
    // The dialect is the protocol's default, and the title is the name of a struct.
    schema.remove("$schema");
    schema.remove("title");
    schema.insert("type".to_owned(), "object".into());
    schema.entry("properties").or_insert_with(|| json!({}));
    schema.values_mut().for_each(drop_sizes);
}

/// Removes `format: uint64` and its like, which validators complain of.
fn drop_sizes(value: &mut Value) {
    match value {
        Value::Object(object) => {
            let sized = |format: &str| format.starts_with("uint") || format.starts_with("int");
            if object.get("format").and_then(Value::as_str).is_some_and(sized) {
                object.remove("format");
            }
            object.values_mut().for_each(drop_sizes);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_sizes),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{Catalogue, Tool};
    use super::*;

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_schema_is_a_plain_object_that_refers_to_nothing_outside() {
        for entry in Catalogue::own().all() {
            let (tool, name) = (Tool::of(entry), entry.facts.name);
            for schema in [&tool.input, &tool.output] {
                assert_eq!(schema["type"], "object", "{name}");
                let whole = Value::Object(schema.clone());
                let mut found = BTreeSet::new();
                references(&whole, &mut found);
                for reference in found {
                    let path = reference.strip_prefix('#').unwrap_or_else(|| panic!("{name}: {reference}"));
                    assert!(whole.pointer(path).is_some(), "{name}: {reference}");
                }
            }
            // Models are called with these, and their makers refuse alternatives at the root.
            for word in ["anyOf", "oneOf", "allOf", "$ref", "not"] {
                assert!(!tool.input.contains_key(word), "{name}: {word}");
            }
        }
    }
}
