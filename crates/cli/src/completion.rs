//! Completions for shells: verbs and flags from the command line's own description, and the names of sandboxes.
//!
//! A shell asks at every key press: coracle starts, sweeps and makes nothing, not even a missing home.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use coracle::assemble;
use coracle::config::{Config, Flags};

use super::Cli;

/// The script in the shell sets it to the name of the shell.
const VARIABLE: &str = "CORACLE_COMPLETE";
/// The name that is completed, and by which the shell calls us.
const PROGRAM: &str = "coracle";
/// A longer list helps no reader.
const NAMES_MAX: usize = 200;

/// Answers a shell if one asks; returns `true` if so.
pub fn answered(arguments: &[OsString]) -> bool {
    // A variable of the same name with another meaning must not keep a command from being carried out.
    let shell = std::env::var(VARIABLE).unwrap_or_default();
    if Shells::builtins().completer(&shell).is_none() {
        return false;
    }
    let home = home(arguments);
    let command = || completing(Cli::command(), &home);
    let asked = CompleteEnv::with_factory(command).var(VARIABLE);
    // A shell cannot show an error in the middle of a line.
    asked.try_complete(arguments.iter().cloned(), None).unwrap_or(true)
}

/// Writes the script that makes a shell ask.
pub fn write_script(shell: Shell, out: &mut dyn Write) -> io::Result<()> {
    let shells = Shells::builtins();
    let shell = shells.completer(&shell.to_string()).ok_or(io::ErrorKind::Unsupported)?;
    shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, out)
}

/// Returns the command line with names for every argument that is a sandbox.
fn completing(command: Command, home: &Option<OsString>) -> Command {
    let command = command.mut_args(|argument| match is_sandbox(&argument) {
        true => {
            let home = home.clone();
            argument.add(ArgValueCandidates::new(move || names(home.clone())))
        }
        false => argument,
    });
    command.mut_subcommands(|verb| completing(verb, home))
}

fn is_sandbox(argument: &Arg) -> bool {
    argument.get_value_names().is_some_and(|names| names.iter().any(|name| name == "SBX"))
}

/// Returns the keys and ids of live sandboxes, the newest first; empty where they cannot be read.
fn names(home: Option<OsString>) -> Vec<CompletionCandidate> {
    let flags = Flags { home: home.map(Into::into), ..Flags::default() };
    let live = Config::load(flags).and_then(|config| assemble::live_names(&config, NAMES_MAX));
    let candidates = live.unwrap_or_default().into_iter().flat_map(|(id, key)| {
        let key = key
            .filter(|key| is_plain(key.as_str()))
            .map(|key| CompletionCandidate::new(key.as_str()).help(Some(id.to_string().into())));
        [key, Some(CompletionCandidate::new(id.as_str()))].into_iter().flatten()
    });
    candidates.collect()
}

/// Tells whether a shell reads a word literally. Another user may have chosen the key.
fn is_plain(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'@'))
        && !word.starts_with('-')
}

/// Returns the home named on the line that is being completed.
fn home(arguments: &[OsString]) -> Option<OsString> {
    let together = |argument: &OsString| {
        argument.as_bytes().strip_prefix(b"--home=").map(|home| OsStr::from_bytes(home).to_owned())
    };
    let place = arguments.iter().position(|argument| argument == "--home" || together(argument).is_some())?;
    together(&arguments[place]).or_else(|| arguments.get(place + 1).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_that_takes_a_sandbox_completes_it() {
        fn check(command: &Command) -> usize {
            let named = |argument: &&Arg| matches!(argument.get_id().as_str(), "sandbox" | "sandboxes");
            for argument in command.get_arguments().filter(named) {
                assert!(is_sandbox(argument), "`{argument}` of `{}`", command.get_name());
            }
            command.get_arguments().filter(named).count()
                + command.get_subcommands().map(check).sum::<usize>()
        }

        assert!(check(&Cli::command()) > 0);
    }

    #[test]
    fn a_key_that_a_shell_would_read_otherwise_is_not_offered() {
        assert!(is_plain("fix-the-bug") && is_plain("agent/7.a_b@c"));
        for word in ["two words", "$(reboot)", "`id`", "a;b", "a:b", "-rf", "größe", "a\nb", "*"] {
            assert!(!is_plain(word), "{word}");
        }
    }

    #[test]
    fn the_home_of_the_line_is_looked_at() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();

        assert_eq!(home(&words("coracle -- coracle --home /x exec")), Some("/x".into()));
        assert_eq!(home(&words("coracle -- coracle exec --home")), None);
        assert_eq!(home(&words("coracle -- coracle --home=/x exec")), Some("/x".into()));
    }
}
