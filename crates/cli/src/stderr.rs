//! Standard error: talk. A failure to talk changes nothing.

use std::io::{self, Write};

use coracle::Error;

use super::paint;
use super::printable::{message, paragraph};

/// Says what failed, why, and what to do.
pub fn error(error: &Error) {
    let ink = paint::on_stderr();
    say(&ink.bad("error"), &error.chain());
    if let Some(hint) = &error.hint {
        say(&ink.advice("hint"), hint);
    }
}

/// Says why a command line is not understood, as clap has put it.
pub fn usage(text: &str) {
    // It repeats what was typed, or what somebody had us type.
    let text = match text.strip_prefix("error") {
        Some(rest) => paint::on_stderr().bad("error") + &message(rest),
        None => message(text),
    };
    let _ = writeln!(io::stderr().lock(), "{}", text.trim_end());
}

/// Says what went wrong beside the matter.
pub fn warning(text: &str) {
    say(&paint::on_stderr().unusual("warning"), text);
}

/// Says something worth knowing.
pub fn note(text: &str) {
    say(&paint::on_stderr().bold("note"), text);
}

/// Says what happens, as a sentence.
pub fn status(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", paragraph(text));
}

/// Passes bytes on as they are, at once.
pub fn bytes(bytes: &[u8]) -> io::Result<()> {
    io::stderr().lock().write_all(bytes)
}

fn say(what: &str, text: &str) {
    let _ = writeln!(io::stderr().lock(), "{what}: {}", paragraph(text));
}
