//! Differences between a sandbox and what was asked for, in terms of flags and their units.

use clap::Command;
use coracle_core::duration;
use serde_json::Value;

use super::flags::{amount, flag};

/// Describes one difference from the details of an error; `None` if it concerns no flag of the verb.
pub fn describe(verb: &Command, difference: &Value) -> Option<String> {
    let field = difference.get("field")?.as_str()?;
    // Variables, labels and mounts have their name after the field.
    let (whole, name) = match field.split_once('.') {
        Some((list @ ("env" | "labels" | "mounts"), name)) => (list, Some(name)),
        _ => (field, None),
    };
    let flag = flag(verb, whole)?;
    let (Some(written), Some(has)) = (difference.get("written"), difference.get("sandbox")) else {
        return Some(format!("`{flag} {}` is another", name.unwrap_or_default()));
    };
    Some(match (whole, name) {
        ("labels", Some(name)) => match shown(field, has) {
            None => format!("it has no `{flag} {name}`"),
            Some(has) => {
                format!("`{flag} {name}` is `{has}`, not `{}`", shown(field, written).unwrap_or_default())
            }
        },
        _ => match (shown(field, has), shown(field, written)) {
            (None, None) => format!("it was opened without `{flag}`"),
            (None, Some(written)) => format!("it was opened without `{flag} {written}`"),
            (Some(has), written) => {
                format!("`{flag}` is `{has}`, not `{}`", written.unwrap_or_else(|| "none".to_owned()))
            }
        },
    })
}

/// Returns a value as a person types it; `None` if there is nothing to type.
fn shown(field: &str, value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Bool(_) => None,
        Value::Number(number) => {
            Some(number.as_u64().map_or_else(|| number.to_string(), |number| amount(field, number)))
        }
        Value::String(text) if field == "ttl" => {
            Some(duration::parse(text).map_or_else(|_| text.clone(), duration::shown))
        }
        Value::String(text) => Some(text.clone()),
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => {
            Some(items.iter().filter_map(|item| shown(field, item)).collect::<Vec<_>>().join(","))
        }
        Value::Object(mount) => {
            let part = |name: &str| mount.get(name).and_then(Value::as_str).unwrap_or_default();
            let access = match part("access") {
                "" | "rw" => String::new(),
                access => format!(":{access}"),
            };
            Some(format!("{}:{}{access}", part("source"), part("target")))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use serde_json::json;

    use super::*;
    use crate::Cli;

    #[test]
    fn differences_are_described_in_flags_and_their_units() {
        let cli = Cli::command();
        let open = cli.find_subcommand("open").expect("a verb");
        let mount =
            |source: &str, access: &str| json!({"source": source, "target": "/src", "access": access});

        for (difference, expected) in [
            (
                json!({"field": "limits.memory_mb", "written": 512, "sandbox": 4096}),
                "`--memory` is `4.0 GiB`, not `512.0 MiB`",
            ),
            (
                json!({"field": "limits.pids", "written": 5, "sandbox": "unlimited"}),
                "`--pids` is `unlimited`, not `5`",
            ),
            (
                json!({"field": "mounts./src", "written": mount("/a", "rw"), "sandbox": mount("data", "ro")}),
                "`--mount` is `data:/src:ro`, not `/a:/src`",
            ),
            (
                json!({"field": "mounts./src", "written": mount("/a", "overlay"), "sandbox": null}),
                "it was opened without `--mount /a:/src:overlay`",
            ),
            (json!({"field": "env.TOKEN"}), "`--env TOKEN` is another"),
            (json!({"field": "labels.a", "written": "x", "sandbox": null}), "it has no `--label a`"),
            (json!({"field": "ttl", "written": "60s", "sandbox": "900s"}), "`--ttl` is `15m`, not `1m`"),
            (
                json!({"field": "allow_sockets", "written": true, "sandbox": false}),
                "it was opened without `--allow-sockets`",
            ),
            (
                json!({"field": "allow_missing", "written": ["disk", "cpu"], "sandbox": []}),
                "it was opened without `--allow-missing disk,cpu`",
            ),
        ] {
            assert_eq!(describe(open, &difference).as_deref(), Some(expected));
        }
    }
}
