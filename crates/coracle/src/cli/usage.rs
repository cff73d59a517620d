//! Command lines that are not understood: the same exit code and the same error object as every other refusal.

use std::ffi::OsString;

use clap::error::ErrorKind;
use coracle::{Error, Kind};

use super::exit::Exit;
use super::stdout;

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
            Exit::SUCCESS
        }
        _ if json => {
            stdout::error(&refusal(&error.render().to_string()));
            Exit::FAILED
        }
        _ => {
            let _ = error.print();
            Exit::FAILED
        }
    }
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
