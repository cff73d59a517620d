//! The commands the fake guest knows, as a list of small deeds.

use std::time::Duration;

use coracle_wire::{Command, Stream};

/// One thing a command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    Say(Stream, Vec<u8>),
    Sleep(Duration),
    /// Repeats standard input until it ends.
    Echo,
    /// Prints the names of the files in the workspace.
    Names,
    /// Prints a file.
    Show(Vec<u8>),
    Exit(i32),
}

/// Returns what a command does, or `None` if there is no such program.
pub fn parse(command: &Command, env: &[(Vec<u8>, Vec<u8>)]) -> Option<Vec<Deed>> {
    let argv: Vec<String> =
        command.argv.iter().map(|argument| String::from_utf8_lossy(argument).into_owned()).collect();
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["sh", "-c", script] => script.split(';').map(|line| parse_line(line.trim())).collect(),
        ["sh", "-c", script, "install", ..] => Some(install(script)),
        ["printenv", name] => Some(print_variable(name, command, env)),
        words => parse_words(words).map(|deed| vec![deed]),
    }
}

/// Package managers: all are in the image, each fetches what names its manifests, and installs from any archive.
fn install(script: &str) -> Vec<Deed> {
    match script {
        script if script.contains("tar -cf") => {
            vec![Deed::Say(Stream::Stderr, b"fetching\n".to_vec()), Deed::Names]
        }
        script if script.contains("tar -xof") => vec![Deed::Say(Stream::Stdout, b"installed\n".to_vec())],
        _ => Vec::new(),
    }
}

fn parse_line(line: &str) -> Option<Deed> {
    let (line, stream) = match line.strip_suffix(">&2") {
        Some(line) => (line, Stream::Stderr),
        None => (line, Stream::Stdout),
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    match parse_words(&words)? {
        Deed::Say(_, text) => Some(Deed::Say(stream, text)),
        deed => Some(deed),
    }
}

fn parse_words(words: &[&str]) -> Option<Deed> {
    match words {
        ["true"] => Some(Deed::Exit(0)),
        ["false"] => Some(Deed::Exit(1)),
        ["exit", code] => Some(Deed::Exit(code.parse().ok()?)),
        ["echo", words @ ..] => {
            Some(Deed::Say(Stream::Stdout, format!("{}\n", words.join(" ")).into_bytes()))
        }
        ["sleep", seconds] => Some(Deed::Sleep(Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?)),
        ["cat"] => Some(Deed::Echo),
        ["cat", path] => Some(Deed::Show(path.as_bytes().to_vec())),
        _ => None,
    }
}

/// The last value wins, and the command's own variables come after the sandbox's.
fn print_variable(name: &str, command: &Command, env: &[(Vec<u8>, Vec<u8>)]) -> Vec<Deed> {
    let mut variables = env.iter().chain(&command.env).chain(&command.secrets);
    match variables.rfind(|(variable, _)| variable == name.as_bytes()) {
        Some((_, value)) => vec![Deed::Say(Stream::Stdout, [value.as_slice(), b"\n"].concat())],
        None => vec![Deed::Exit(1)],
    }
}
