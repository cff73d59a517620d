//! Warnings on standard error. A failure to write one changes nothing.

use std::io::{self, Write};

use coracle_core::printable::paragraph;

pub fn warn(text: &str) {
    say("warning", text);
}

pub fn note(text: &str) {
    say("note", text);
}

fn say(what: &str, text: &str) {
    let _ = writeln!(io::stderr().lock(), "{what}: {}", paragraph(text));
}
