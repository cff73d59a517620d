//! From JSON to an operation's input, or to a sentence on which field is wrong and why.

use coracle_core::complaint::{named_field, plainly};
use coracle_core::{Error, Kind, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The most that is repeated of what was wrong.
const COMPLAINT_MAX: usize = 500;
/// More values than people write, and few enough to leave out one after the other.
const VALUES_MAX: usize = 256;
/// Longer texts are not read twice.
const TEXT_MAX: usize = 4096;

/// Turns JSON into an operation's input, or says which field is wrong.
pub fn read<Input: DeserializeOwned>(name: &str, input: Value) -> Result<Input> {
    // Serde would take the fields from an array, too, in an order that was never promised.
    if !input.is_object() {
        return Err(Error::new(Kind::Invalid, format!("the input of `{name}` is not a JSON object")));
    }
    let read = match is_short(&input) {
        true => serde_path_to_error::deserialize(&input).map_err(|error| (error, Some(&input))),
        false => serde_path_to_error::deserialize(input).map_err(|error| (error, None)),
    };
    read.map_err(|(error, input)| {
        let path = Some(error.path().to_string()).filter(|path| path != ".");
        let complaint = error.into_inner().to_string();
        let path = match (named_field(&complaint), path, input) {
            (Some(_), ..) => None,
            (None, None, Some(input)) => Search::of::<Input>(&complaint).path(input),
            (None, path, _) => path,
        };
        refusal(name, &complaint, path)
    })
}

fn refusal(name: &str, complaint: &str, path: Option<String>) -> Error {
    // Serde repeats what it could not read, however long that is.
    let told: String = plainly(complaint).chars().take(COMPLAINT_MAX).collect();
    let (field, told) = match path {
        Some(path) => {
            let last = path.rsplit('.').next().unwrap_or(&path);
            let about = match told.strip_prefix(&format!("`{last}` ")) {
                // It begins with its field, if it is a complaint of ours.
                Some(rest) => format!("`{path}` {rest}"),
                None if told.starts_with("is ") || told.starts_with("has ") => format!("`{path}` {told}"),
                None => format!("`{path}`: {told}"),
            };
            (Some(path), about)
        }
        // The first name in backticks is the field, in these messages and in ours.
        None => (told.split('`').nth(1).map(str::to_owned), told),
    };
    let error = Error::new(Kind::Invalid, format!("the input of `{name}` is not valid: {told}"))
        .hint(format!("the schema of `{name}` lists its fields"));
    match field {
        Some(field) => error.detail("field", field),
        None => error,
    }
}

/// Tells whether the input can be searched in no time. Every caller may send one that is wrong.
fn is_short(input: &Value) -> bool {
    fn counts(value: &Value, left: &mut usize) -> bool {
        let Some(rest) = left.checked_sub(1) else { return false };
        *left = rest;
        match value {
            Value::Object(fields) => fields.values().all(|value| counts(value, left)),
            Value::Array(values) => values.iter().all(|value| counts(value, left)),
            Value::String(text) => text.len() <= TEXT_MAX,
            _ => true,
        }
    }
    let mut left = VALUES_MAX;
    counts(input, &mut left)
}

/// Looks for the field a complaint is about, by leaving out one after the other: serde does not know where it is in
/// fields that are written in the struct of another.
struct Search<'a> {
    complaint: &'a str,
    complain: fn(Value) -> Option<String>,
}

impl<'a> Search<'a> {
    fn of<Input: DeserializeOwned>(complaint: &'a str) -> Self {
        Self {
            complaint,
            complain: |value| serde_json::from_value::<Input>(value).err().map(|error| error.to_string()),
        }
    }

    /// Returns the path of the innermost value without which serde complains no more, or of something else.
    fn path(&self, input: &Value) -> Option<String> {
        let mut path = String::new();
        let mut pointer = String::new();
        while let Some((step, dotted)) = self.step(input, &pointer) {
            pointer.push('/');
            pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
            path.push_str(&dotted);
        }
        (!path.is_empty()).then(|| path.trim_start_matches('.').to_owned())
    }

    /// Returns the next step from a value towards the one that is wrong.
    fn step(&self, input: &Value, pointer: &str) -> Option<(String, String)> {
        let steps: Vec<(String, String)> = match input.pointer(pointer)? {
            Value::Object(fields) => fields.keys().map(|name| (name.clone(), format!(".{name}"))).collect(),
            Value::Array(values) => (0..values.len()).map(|at| (at.to_string(), format!("[{at}]"))).collect(),
            _ => Vec::new(),
        };
        steps.into_iter().find(|(step, _)| {
            let mut without = input.clone();
            match without.pointer_mut(pointer) {
                Some(Value::Object(fields)) => drop(fields.remove(step)),
                Some(Value::Array(values)) => drop(step.parse().map(|at: usize| values.remove(at))),
                _ => {}
            }
            (self.complain)(without).as_deref() != Some(self.complaint)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::sandbox::open;

    fn refused(input: Value) -> (String, Value) {
        let error = read::<open::Input>("sandbox_open", input).expect_err("it is not valid");
        (error.message, error.details.get("field").cloned().unwrap_or_default())
    }

    #[test]
    fn the_field_is_named_wherever_it_stands() {
        for (input, field) in [
            (json!({"limits": {"memory_mb": "x"}}), "limits.memory_mb"),
            (json!({"limits": {"pids": 1, "memory_mb": -1}}), "limits.memory_mb"),
            (json!({"limits": 5}), "limits"),
            (json!({"env": {"A": "b", "C": 1}}), "env.C"),
            (json!({"env": {"A/~B": 1}}), "env.A/~B"),
            (
                json!({"mounts": [{"source": "a", "target": "/b"}, {"source": 1, "target": "/b"}]}),
                "mounts[1].source",
            ),
            (json!({"privileges": "x"}), "privileges"),
            (json!({"ttl": 5, "image": "a"}), "ttl"),
            (json!({"session_key": 5}), "session_key"),
            (json!({"bogus": 5}), "bogus"),
        ] {
            let (message, named) = refused(input.clone());
            assert_eq!(named, field, "{input}: {message}");
            assert!(message.contains(&format!("`{field}`")), "{message}");
        }
    }

    #[test]
    fn no_message_speaks_of_rust() {
        for input in [
            json!({"limits": {"memory_mb": 1.5}}),
            json!({"limits": []}),
            json!({"env": []}),
            json!({"mounts": {}}),
            json!({"storage": ["x"]}),
            json!({"labels": {"a": null}}),
            json!({"session_key": {}}),
        ] {
            let (message, _) = refused(input);
            for word in ["u64", "usize", "sequence", "a map", "variant", "struct", "floating", "integer"] {
                assert!(!message.contains(word), "{message}");
            }
        }
    }

    #[test]
    fn much_input_is_refused_without_a_search() {
        let env: serde_json::Map<_, _> = (0..5000).map(|n| (format!("A{n}"), json!(n))).collect();

        let (message, _) = refused(json!({"env": env}));

        assert!(message.len() < 1000, "{message}");
    }
}
