//! Command lines that are not understood: the same exit code and the same error object as every other refusal.

use std::ffi::OsString;
use std::net::AddrParseError;
use std::num::ParseIntError;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use coracle::{Error, Kind};

use super::exit::Exit;
use super::{stderr, stdout};

/// Tells whether the caller wants JSON, before anything else of the command line is understood.
pub fn asks_for_json(arguments: &[OsString]) -> bool {
    // What stands behind `--` belongs to the command.
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

/// Says what is wrong with a command line, or shows the help that was asked for.
pub fn explain(error: &clap::Error, json: bool) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            return Exit::SUCCESS;
        }
        _ => {}
    }
    match (json, ours(error)) {
        (true, ours) => stdout::error(&ours.unwrap_or_else(|| refusal(&error.render().to_string()))),
        (false, Some(ours)) => stderr::error(&ours),
        (false, None) => stderr::usage(&error.render().to_string()),
    }
    Exit::FAILED
}

/// Returns the refusal of a value, in our own words and with its hint, of which clap knows nothing. What was written is
/// repeated only where our words do: it may be a secret.
fn ours(error: &clap::Error) -> Option<Error> {
    let source = std::error::Error::source(error)?;
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg)?;
    let written = name(argument);
    let wanted = match (source.is::<ParseIntError>(), source.is::<AddrParseError>()) {
        (true, _) => Some("a whole number, or too large"),
        (_, true) => Some("an address and a port, as in `127.0.0.1:8080`"),
        _ => None,
    };
    if let Some(wanted) = wanted {
        let value = text(ContextKind::InvalidValue).unwrap_or_default().escape_debug().to_string();
        let message = format!("`{written}`: `{value}` is not {wanted}");
        return Some(Error::new(Kind::Invalid, message).detail("field", written));
    }
    let refused = source.downcast_ref::<Error>()?;
    let field = refused.details.get("field").and_then(serde_json::Value::as_str).unwrap_or_default();
    let message = match refused.message.strip_prefix(&format!("`{field}` ")) {
        Some(what) => format!("`{written}` {what}"),
        None => format!("`{written}`: {}", refused.message),
    };
    let mut told = Error::new(refused.kind, message).detail("field", written);
    told.hint.clone_from(&refused.hint);
    Some(told)
}

/// Returns the flag or the name of the argument in clap's `--flag <VALUE>`, `<NAME>` and `[NAME]...`.
fn name(argument: &str) -> &str {
    let first = argument.split(' ').next().unwrap_or(argument).trim_end_matches("...");
    let within = |open, close| first.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    within('<', '>').or_else(|| within('[', ']')).unwrap_or(first)
}

fn refusal(rendered: &str) -> Error {
    let text = rendered.strip_prefix("error: ").unwrap_or(rendered);
    let message = text.split("\n\n").next().unwrap_or(text).trim_end();
    Error::new(Kind::Invalid, message).hint("`--help` behind the verb shows what it takes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_behind_the_dashes_is_not_ours() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();

        assert!(asks_for_json(&words("coracle exec sbx --json -- true")));
        assert!(!asks_for_json(&words("coracle exec sbx -- gh --json")));
    }

    #[test]
    fn an_argument_goes_by_the_name_in_the_help() {
        let names =
            ["--memory <SIZE>", "<SBX>", "<SBX>...", "[EXEC]", "<[LOCAL:]PORT>", "-c <CODE>"].map(name);

        assert_eq!(names, ["--memory", "SBX", "SBX", "EXEC", "[LOCAL:]PORT", "-c"]);
    }

    #[test]
    fn the_message_is_the_first_paragraph() {
        let error = refusal("error: unexpected argument '--x' found\n\nUsage: coracle\n");

        assert_eq!(error.message, "unexpected argument '--x' found");
        assert_eq!(error.kind, Kind::Invalid);
    }
}
