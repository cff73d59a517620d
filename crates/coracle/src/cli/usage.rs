//! Command lines that are not understood: the same exit code and the same error object as every other refusal.

use std::ffi::OsString;

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
    let refused = std::error::Error::source(error)?.downcast_ref::<Error>()?;
    let written = match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(argument) => argument.split(' ').next().unwrap_or(argument),
        _ => return None,
    };
    let written = written.trim_matches(['<', '>', '[', ']', '.']);
    let field = refused.details.get("field").and_then(serde_json::Value::as_str).unwrap_or_default();
    let message = match refused.message.strip_prefix(&format!("`{field}` ")) {
        Some(what) => format!("`{written}` {what}"),
        None => format!("`{written}`: {}", refused.message),
    };
    let mut told = Error::new(refused.kind, message).detail("field", written);
    told.hint.clone_from(&refused.hint);
    Some(told)
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
    fn the_message_is_the_first_paragraph() {
        let error = refusal("error: unexpected argument '--x' found\n\nUsage: coracle\n");

        assert_eq!(error.message, "unexpected argument '--x' found");
        assert_eq!(error.kind, Kind::Invalid);
    }
}
