//! Refusals in the words the person typed: the engine knows fields and their units, the person a flag and what stood
//! behind it. Details keep the field, and get the flag, for programs.

use std::time::Duration;

use clap::{Arg, Command};
use coracle::Error;
use coracle_core::bytes::Bytes;
use serde_json::Value;

/// Fields whose flag has another name.
const FLAGS: &[(&str, &str)] = &[
    ("memory_mb", "memory"),
    ("cpu_millicores", "cpus"),
    ("workspace_mb", "disk"),
    ("output_bytes", "output"),
    ("timeout_seconds", "timeout"),
    ("timeout_ms", "timeout"),
    ("limits.timeout_seconds", "ttl"),
    ("grace_ms", "grace"),
    ("session_key", "key"),
    ("secrets", "secret"),
    ("labels", "label"),
    ("mounts", "mount"),
    ("mounts.source", "mount"),
    ("mounts.target", "mount"),
    ("build_args", "build-arg"),
    ("dockerfile", "file"),
    ("files", "file"),
    ("code", "code"),
    ("context", "DIR"),
    ("reference", "IMAGE"),
    ("sandbox_id", "SBX"),
    ("exec_id", "EXEC"),
];

/// Returns a refusal of a field as one of the flag or the argument of a verb that leads there.
pub fn in_flags_of(verb: &Command, mut error: Error) -> Error {
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

/// Returns what a person types for a field, where the verb has it.
fn flag(verb: &Command, field: &str) -> Option<String> {
    let last = field.rsplit('.').next().unwrap_or(field);
    let named =
        |field: &str| FLAGS.iter().find(|(name, _)| *name == field).map(|(_, flag)| (*flag).to_owned());
    let wanted = named(field).or_else(|| named(last)).unwrap_or_else(|| last.replace('_', "-"));
    find(verb, &wanted)
}

/// Looks at the verb, and at the verbs below it.
fn find(verb: &Command, wanted: &str) -> Option<String> {
    let own = verb.get_arguments().find_map(|argument| typed(argument, wanted));
    own.or_else(|| verb.get_subcommands().find_map(|verb| find(verb, wanted)))
}

fn typed(argument: &Arg, wanted: &str) -> Option<String> {
    let longs = argument.get_long().into_iter().chain(argument.get_all_aliases().into_iter().flatten());
    if longs.into_iter().any(|long| long == wanted) {
        return Some(format!("--{wanted}"));
    }
    let short = argument.get_short().filter(|_| argument.get_long().is_none() && argument.get_id() == wanted);
    let names = argument.get_value_names().into_iter().flatten().filter(|_| argument.is_positional());
    let name = names.into_iter().find(|name| name.eq_ignore_ascii_case(wanted));
    short.map(|short| format!("-{short}")).or_else(|| name.map(ToString::to_string))
}

/// Returns what is wrong with a number in the unit it is written in, where the engine says its bounds.
fn bounds(field: &str, error: &Error) -> Option<String> {
    let number = |name: &str| error.details.get(name).and_then(Value::as_u64);
    if let (true, Some(max)) = (field.starts_with("timeout_"), number("max_ms")) {
        return Some(format!(" must be at least 1ms and at most {}", span(max)));
    }
    if let ("grace_ms", Some(max)) = (field, number("max_ms")) {
        return Some(format!(" is more than {}", span(max)));
    }
    let (value, min, max) = (number("value")?, number("min")?, number("max")?);
    let shown = |amount: u64| match field.rsplit('.').next().unwrap_or(field) {
        "memory_mb" | "workspace_mb" => Bytes(amount.saturating_mul(1 << 20)).to_string(),
        "output_bytes" => Bytes(amount).to_string(),
        "cpu_millicores" => format!("{}", amount as f64 / 1000.0),
        "timeout_seconds" => span(amount.saturating_mul(1000)),
        _ => amount.to_string(),
    };
    Some(format!(" is {}, outside {} to {}", shown(value), shown(min), shown(max)))
}

fn span(millis: u64) -> String {
    coracle_core::duration::shown(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use coracle_core::limits::LimitsInput;
    use coracle_core::spec::LimitsChoice;
    use coracle_core::{Kind, Policy, Spec};

    use super::*;
    use crate::cli::Cli;

    fn told(verb: &str, error: Error) -> String {
        let cli = Cli::command();
        in_flags_of(cli.find_subcommand(verb).expect("a verb"), error).message
    }

    fn refused(limits: LimitsInput) -> Error {
        let input = coracle::SpecInput { limits: Some(LimitsChoice::Limits(limits)), ..Default::default() };
        Spec::resolve(input, &Policy::default()).expect_err("out of bounds")
    }

    #[test]
    fn limits_are_named_by_their_flags_and_in_the_units_they_are_written_in() {
        let memory = refused(LimitsInput { memory_mb: Some(1), ..LimitsInput::default() });
        let cpus = refused(LimitsInput { cpu_millicores: Some(0), ..LimitsInput::default() });

        assert_eq!(told("run", memory), "`--memory` is 1.0 MiB, outside 4.0 MiB to 16.0 GiB");
        assert_eq!(told("open", cpus), "`--cpus` is 0, outside 0.01 to 8");
        let grace = Error::invalid("grace_ms", "is too long").detail("max_ms", 600_000);
        assert_eq!(told("stop", grace), "`--grace` is more than 10m");
        let timeout =
            Error::invalid("timeout_seconds", "is 0ns, outside 1ms to 14400s").detail("max_ms", 14_400_000);
        assert_eq!(told("exec", timeout), "`--timeout` must be at least 1ms and at most 4h");
    }

    #[test]
    fn a_field_without_a_flag_on_the_verb_keeps_its_name() {
        let invalid = |field: &str| Error::invalid(field, "is wrong");

        assert_eq!(told("run", invalid("cwd")), "`--cwd` is wrong");
        assert_eq!(told("network", invalid("network")), "`NETWORK` is wrong");
        assert_eq!(told("run", invalid("network")), "`--network` is wrong");
        assert_eq!(told("show", invalid("network")), "`network` is wrong");
        assert_eq!(told("run", invalid("code")), "`-c` is wrong");
        assert_eq!(told("run", invalid("cmd")), "`CMD` is wrong");
        assert_eq!(told("open", invalid("mounts.target")), "`--mount`: TARGET is wrong");
        assert_eq!(told("image", invalid("tag")), "`--tag` is wrong");
        assert_eq!(told("run", Error::new(Kind::Invalid, "no field")), "no field");
    }

    #[test]
    fn programs_learn_the_field_and_the_flag() {
        let cli = Cli::command();
        let verb = cli.find_subcommand("stop").expect("a verb");

        let told = in_flags_of(verb, Error::invalid("grace_ms", "is wrong"));

        assert_eq!((&told.details["field"], &told.details["flag"]), (&"grace_ms".into(), &"--grace".into()));
    }
}
