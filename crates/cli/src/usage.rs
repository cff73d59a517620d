//! Command lines that are not understood: the same exit code and the same error object as for every other error.

use std::ffi::OsString;
use std::net::AddrParseError;
use std::num::ParseIntError;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use coracle::{Error, Kind};

use super::exit::Exit;
use super::{foreign_verbs, stderr, stdout};

/// Tells whether the caller wants JSON, for a command line that clap could not parse. From `--` on, or from the first
/// word of a command on, everything belongs to the command.
pub fn asks_for_json(cli: &Command, arguments: &[OsString]) -> bool {
    let (mut verb, mut place) = (cli, 0);
    let mut words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        match word.as_ref() {
            "--" => return false,
            "--json" => return true,
            flag if flag.len() > 1 && flag.starts_with('-') => {
                if takes_next([cli, verb], flag) {
                    words.next();
                }
            }
            word => match (verb.find_subcommand(word), verb.get_positionals().nth(place)) {
                (Some(found), _) => (verb, place) = (found, 0),
                (None, Some(argument)) if argument.is_trailing_var_arg_set() => return false,
                (None, _) => place += 1,
            },
        }
    }
    false
}

/// Returns the first word that is neither a flag nor the value of one.
fn first_word(cli: &Command, arguments: &[OsString]) -> Option<String> {
    let mut words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            return Some(word.into_owned());
        }
        if takes_next([cli, cli], &word) {
            words.next();
        }
    }
    None
}

/// Tells whether the word after a flag is its value.
fn takes_next(verbs: [&Command; 2], flag: &str) -> bool {
    let with_value = |fits: &dyn Fn(&Arg) -> bool| {
        let mut arguments = verbs.into_iter().flat_map(Command::get_arguments);
        arguments.any(|argument| fits(argument) && argument.get_action().takes_values())
    };
    match flag.strip_prefix("--") {
        Some(long) => with_value(&|argument| {
            argument.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long))
        }),
        // In `-it` and `-eNAME`, the first flag that takes a value takes the rest of the word.
        None => {
            let short = |name| {
                with_value(&|argument: &Arg| {
                    argument.get_short_and_visible_aliases().is_some_and(|names| names.contains(&name))
                })
            };
            let first = flag[1..].char_indices().find(|(_, name)| short(*name));
            first.is_some_and(|(at, name)| 1 + at + name.len_utf8() == flag.len())
        }
    }
}

/// Prints what is wrong with a command line, or the requested help.
pub fn explain(error: &clap::Error, cli: &Command, arguments: &[OsString]) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            return Exit::SUCCESS;
        }
        _ => {}
    }
    let json = asks_for_json(cli, arguments);
    let foreign = first_word(cli, arguments).filter(|_| error.kind() == ErrorKind::InvalidSubcommand);
    match (json, foreign.and_then(|verb| foreign_verb(&verb)).or_else(|| ours(error))) {
        (true, ours) => stdout::error(&ours.unwrap_or_else(|| refusal(&error.render().to_string()))),
        (false, Some(ours)) => stderr::error(&ours),
        (false, None) => stderr::usage(&error.render().to_string()),
    }
    Exit::FAILED
}

/// Returns the error for a verb of another tool.
fn foreign_verb(verb: &str) -> Option<Error> {
    let advice = foreign_verbs::advice(verb)?;
    Some(Error::new(Kind::Invalid, format!("there is no verb `{verb}`")).hint(advice))
}

/// Returns the error for a value, with our own message and hint, which clap does not print. It repeats the written
/// text only where our message does: it may be a secret.
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
        return Some(Error::new(Kind::Invalid, message).detail("field", written).detail("flag", written));
    }
    let refused = source.downcast_ref::<Error>()?;
    let field = refused.details.get("field").and_then(serde_json::Value::as_str).unwrap_or_default();
    let message = match refused.message.strip_prefix(&format!("`{field}` ")) {
        Some(what) => format!("`{written}` {what}"),
        None => format!("`{written}`: {}", refused.message),
    };
    let mut reworded = Error::new(refused.kind, message).detail("field", written).detail("flag", written);
    reworded.hint.clone_from(&refused.hint);
    Some(reworded)
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
    Error::new(Kind::Invalid, message).hint("`--help` after the verb shows what it takes")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::Cli;
    use super::*;

    #[test]
    fn json_behind_the_command_is_not_ours() {
        let asks = |line: &str| {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            asks_for_json(&Cli::command(), &words)
        };

        for line in [
            "coracle exec sbx --json -- true",
            "coracle --json run --memory 5x gh",
            "coracle run --memory 5x --json gh",
            "coracle exec --cwd gh -e A sbx --json gh",
            "coracle close a b c --json",
            "coracle fs read a b c --json",
        ] {
            assert!(asks(line), "{line}");
        }
        for line in [
            "coracle exec sbx -- gh --json",
            "coracle run --memory 5x gh --json",
            "coracle exec --cwd / -e A -it sbx gh --json",
            "coracle run --memory=5x gh --json",
        ] {
            assert!(!asks(line), "{line}");
        }
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
