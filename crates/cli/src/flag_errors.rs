//! Turns errors about fields into errors about flags: the engine knows fields and their units, the person a flag and
//! its value. The details keep the field, and get the flag, for programs.

use clap::Command;
use coracle::Error;
use serde_json::Value;

use super::flag_differences;
use super::flags::{amount, flag, span};
use super::printable::message;

/// How hints name fields, and the flag for each, on whichever verb.
const WORDS: &[(&str, &str)] = &[
    ("`running` is `keep` or `kill`", "`--running keep` or `--running kill`"),
    (
        "`ttl` sets how long it may be idle, and mounted directories and volumes outlive it",
        "`--ttl` sets how long it may be idle, and files in `--workspace DIR` or `--volume NAME` outlive it",
    ),
    ("choose another `exec_id`", "choose another `--id`"),
    ("`recursive`", "`--recursive`"),
    ("`no_timeout`", "`--timeout none`"),
    ("`allow_missing`", "`--allow-missing`"),
    ("`allow_sockets`", "`--allow-sockets`"),
    ("`share_mounts`", "`--share-mounts`"),
    ("`limits.timeout_seconds`", "`--ttl`"),
    ("`on_idle`", "`--on-idle`"),
    ("`limits.pids`", "`--pids`"),
    ("`memory_mb`", "`--memory`"),
    ("`storage: disk`", "`--storage disk`"),
    ("`session_key`", "`--key`"),
    ("`replace`", "`--replace`"),
    ("`repo.repo_id`", "`--repo`"),
    ("`repo.base_branch`", "`--base`"),
    ("`repo.branch`", "`--branch`"),
    ("`repo.depth`", "`--depth`"),
    ("`image`", "`--image`"),
    ("`user`", "`--user`"),
];

/// Returns an error in terms of a verb's flags. A caller of `coracle call` writes fields, so those stay.
pub fn in_words_of(verb: &Command, error: Error) -> Error {
    if verb.get_name() == "call" {
        return error;
    }
    let mut error = with_differences(verb, in_flags_of(verb, error));
    error.hint = error.hint.map(|hint| reworded(&hint, |_| true));
    // A message may quote any name, though hardly one of these.
    error.message = reworded(&error.message, |field| field.contains(['_', '.']));
    error
}

fn reworded(text: &str, heeds: impl Fn(&str) -> bool) -> String {
    let words = WORDS.iter().filter(|(field, _)| heeds(field));
    words.fold(text.to_owned(), |text, (field, typed)| text.replace(field, typed))
}

/// Returns the error for a sandbox that differs from what was asked for, with the flags that differ.
fn with_differences(verb: &Command, mut error: Error) -> Error {
    const ASKED: &str = " is not what was asked for: ";
    let differences = error.details.get("differences").and_then(Value::as_array);
    let Some(described) = differences.and_then(|all| {
        all.iter().map(|one| flag_differences::describe(verb, one)).collect::<Option<Vec<_>>>()
    }) else {
        return error;
    };
    if let Some(end) = error.message.find(ASKED) {
        error.message = format!("{}{ASKED}{}", &error.message[..end], message(&described.join("; ")));
        error.hint = Some(
            "leave these flags out to use it as it is, close it and open a new one with `--replace`, or use another key"
                .to_owned(),
        );
    }
    error
}

/// Returns an error about a field as one about the flag or argument of a verb that sets it.
fn in_flags_of(verb: &Command, mut error: Error) -> Error {
    let Some(field) = error.details.get("field").and_then(Value::as_str).map(str::to_owned) else {
        return error;
    };
    // A reference is an image, whatever the field is called.
    let named = [field.as_str(), "image"].map(|name| format!("`{name}`"));
    let Some(rest) = named.iter().find_map(|name| error.message.strip_prefix(name.as_str())) else {
        return error;
    };
    let Some(flag) = flag(verb, &field) else { return error };
    let what = match field.as_str() {
        "mounts.source" => format!(": SOURCE{rest}"),
        "mounts.target" => format!(": TARGET{rest}"),
        _ => bounds(&field, &error).unwrap_or_else(|| rest.to_owned()),
    };
    error.message = format!("`{flag}`{what}");
    error.detail("flag", flag)
}

/// Returns what is wrong with a number, in the unit of its flag, where the engine gives its bounds.
fn bounds(field: &str, error: &Error) -> Option<String> {
    let number = |name: &str| error.details.get(name).and_then(Value::as_u64);
    if let (true, Some(max)) = (field.starts_with("timeout_"), number("max_ms")) {
        return Some(format!(" must be at least 1ms and at most {}", span(max)));
    }
    if let ("grace_ms", Some(max)) = (field, number("max_ms")) {
        return Some(format!(" is more than {}", span(max)));
    }
    let (value, min, max) = (number("value")?, number("min")?, number("max")?);
    let shown = |number: u64| amount(field, number);
    Some(format!(" is {}, outside {} to {}", shown(value), shown(min), shown(max)))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use coracle_core::limits::LimitsInput;
    use coracle_core::spec::LimitsChoice;
    use coracle_core::{Kind, Policy, Spec};

    use super::*;
    use crate::Cli;

    fn message_of(verb: &str, error: Error) -> String {
        let cli = Cli::command();
        in_words_of(cli.find_subcommand(verb).expect("a verb"), error).message
    }

    fn refused(limits: LimitsInput) -> Error {
        let input = coracle::SpecInput { limits: Some(LimitsChoice::Limits(limits)), ..Default::default() };
        Spec::resolve(input, &Policy::default()).expect_err("out of bounds")
    }

    #[test]
    fn limits_are_named_by_their_flags_and_in_the_units_they_are_written_in() {
        let memory = refused(LimitsInput { memory_mb: Some(1), ..LimitsInput::default() });
        let cpus = refused(LimitsInput { cpu_millicores: Some(0), ..LimitsInput::default() });

        assert_eq!(message_of("run", memory), "`--memory` is 1.0 MiB, outside 4.0 MiB to 16.0 GiB");
        assert_eq!(message_of("open", cpus), "`--cpus` is 0, outside 0.01 to 8");
        let grace = Error::invalid("grace_ms", "is too long").detail("max_ms", 600_000);
        assert_eq!(message_of("stop", grace), "`--grace` is more than 10m");
        let timeout =
            Error::invalid("timeout_seconds", "is 0ns, outside 1ms to 14400s").detail("max_ms", 14_400_000);
        assert_eq!(message_of("exec", timeout), "`--timeout` must be at least 1ms and at most 4h");
    }

    #[test]
    fn a_field_without_a_flag_on_the_verb_keeps_its_name() {
        let invalid = |field: &str| Error::invalid(field, "is wrong");

        assert_eq!(message_of("run", invalid("cwd")), "`--cwd` is wrong");
        assert_eq!(message_of("network", invalid("network")), "`NETWORK` is wrong");
        assert_eq!(message_of("run", invalid("network")), "`--network` is wrong");
        assert_eq!(message_of("show", invalid("network")), "`network` is wrong");
        assert_eq!(message_of("run", invalid("code")), "`-c` is wrong");
        assert_eq!(message_of("run", invalid("cmd")), "`CMD` is wrong");
        assert_eq!(message_of("open", invalid("mounts.target")), "`--mount`: TARGET is wrong");
        assert_eq!(message_of("image", invalid("tag")), "`--tag` is wrong");
        assert_eq!(message_of("run", Error::new(Kind::Invalid, "no field")), "no field");
    }

    #[test]
    fn advice_names_flags_where_flags_are_typed() {
        let cli = Cli::command();
        let hint = |verb: &str, hint: &str| {
            let verb = cli.find_subcommand(verb).expect("a verb");
            in_words_of(verb, Error::new(Kind::Invalid, "x").hint(hint)).hint
        };

        assert_eq!(hint("fs", "write `recursive`").as_deref(), Some("write `--recursive`"));
        assert_eq!(hint("exec", "a higher `limits.pids`").as_deref(), Some("a higher `--pids`"));
        assert_eq!(hint("call", "write `recursive`").as_deref(), Some("write `recursive`"));
    }

    #[test]
    fn programs_learn_the_field_and_the_flag() {
        let cli = Cli::command();
        let verb = cli.find_subcommand("stop").expect("a verb");

        let reworded = in_words_of(verb, Error::invalid("grace_ms", "is wrong"));

        assert_eq!(
            (&reworded.details["field"], &reworded.details["flag"]),
            (&"grace_ms".into(), &"--grace".into())
        );
    }
}
