//! Standard error: talk. A failure to write changes nothing.

use std::io::{self, Write};

use coracle::Error;

use super::paint;
use super::printable::{message, paragraph};

/// Prints what failed, why, and what to do.
pub fn error(error: &Error) {
    let ink = paint::on_stderr();
    say(&ink.bad("error"), &error.chain());
    if let Some(hint) = &error.hint {
        say(&ink.advice("hint"), hint);
    }
}

/// Prints clap's message about a command line it does not understand.
pub fn usage(text: &str) {
    // Escaped: it repeats what was typed, or pasted from a stranger.
    let text = match text.strip_prefix("error") {
        Some(rest) => paint::on_stderr().bad("error") + &message(rest),
        None => message(text),
    };
    let _ = writeln!(io::stderr().lock(), "{}", text.trim_end());
}

/// Prints a warning about a side issue.
pub fn warning(text: &str) {
    say(&paint::on_stderr().unusual("warning"), text);
}

/// Prints a note.
pub fn note(text: &str) {
    say(&paint::on_stderr().bold("note"), text);
}

/// Prints the current activity, as a sentence.
pub fn status(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", paragraph(text));
}

/// Passes bytes on unchanged, at once.
pub fn bytes(bytes: &[u8]) -> io::Result<()> {
    io::stderr().lock().write_all(bytes)
}

fn say(what: &str, text: &str) {
    let _ = writeln!(io::stderr().lock(), "{what}: {}", paragraph(text));
}
