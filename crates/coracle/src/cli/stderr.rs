//! Standard error: talk. A failure to talk changes nothing.

use std::io::{self, Write};

use coracle::Error;

use super::printable::paragraph;

/// Says what failed, why, and what to do.
pub fn error(error: &Error) {
    say("error", &error.chain());
    if let Some(hint) = &error.hint {
        say("hint", hint);
    }
}

/// Says what went wrong beside the matter.
pub fn warning(text: &str) {
    say("warning", text);
}

/// Says something worth knowing.
pub fn note(text: &str) {
    say("note", text);
}

/// Says what happens, as a sentence.
pub fn status(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", paragraph(text));
}

/// Passes bytes on as they are, at once.
pub fn bytes(bytes: &[u8]) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(bytes);
}

fn say(what: &str, text: &str) {
    let _ = writeln!(io::stderr().lock(), "{what}: {}", paragraph(text));
}
