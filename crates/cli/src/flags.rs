//! The flags for fields of operations, and the units of their values.

use std::time::Duration;

use clap::{Arg, Command};
use coracle_core::bytes::Bytes;
use coracle_core::duration;

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

/// Returns the flag or argument for a field, where the verb has it.
pub fn flag(verb: &Command, field: &str) -> Option<String> {
    let last = field.rsplit('.').next().unwrap_or(field);
    let named =
        |field: &str| FLAGS.iter().find(|(name, _)| *name == field).map(|(_, flag)| (*flag).to_owned());
    let wanted = named(field).or_else(|| named(last)).unwrap_or_else(|| last.replace('_', "-"));
    find(verb, &wanted)
}

/// Searches the verb, and the verbs below it.
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

/// Returns a number of a field in the unit of its flag.
pub fn amount(field: &str, number: u64) -> String {
    match field.rsplit('.').next().unwrap_or(field) {
        "memory_mb" | "workspace_mb" => Bytes(number.saturating_mul(1 << 20)).to_string(),
        "output_bytes" => Bytes(number).to_string(),
        "cpu_millicores" => format!("{}", number as f64 / 1000.0),
        "timeout_seconds" => span(number.saturating_mul(1000)),
        _ => number.to_string(),
    }
}

pub fn span(millis: u64) -> String {
    duration::shown(Duration::from_millis(millis))
}
