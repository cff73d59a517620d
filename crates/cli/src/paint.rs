//! Colour, for people at a terminal. It repeats what the words say: meaning never depends on it.

use std::io;

use rustix::termios::isatty;

const RESET: &str = "\x1b[0m";

/// Whether a stream is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink(bool);

/// Returns whether standard output is coloured.
pub fn on_stdout() -> Ink {
    Ink(coracle::config::wants_colour(isatty(io::stdout())))
}

/// Returns whether standard error is coloured.
pub fn on_stderr() -> Ink {
    Ink(coracle::config::wants_colour(isatty(io::stderr())))
}

impl Ink {
    #[cfg(test)]
    pub fn none() -> Self {
        Self(false)
    }

    /// For headings.
    pub fn bold(self, text: &str) -> String {
        self.paint("\x1b[1m", text)
    }

    /// For what is all right.
    pub fn good(self, text: &str) -> String {
        self.paint("\x1b[32m", text)
    }

    /// For what is worth a look.
    pub fn unusual(self, text: &str) -> String {
        self.paint("\x1b[33m", text)
    }

    /// For what is wrong.
    pub fn bad(self, text: &str) -> String {
        self.paint("\x1b[1;31m", text)
    }

    /// For hints.
    pub fn advice(self, text: &str) -> String {
        self.paint("\x1b[36m", text)
    }

    /// Returns a word of a status column in the colour of that status.
    pub fn state(self, column: &str, word: &str) -> Option<String> {
        if !matches!(column, "STATE" | "STATUS" | "ENFORCED" | "AVAILABLE") {
            return None;
        }
        match word {
            "ready" | "running" | "yes" | "active" | "exited 0" => Some(self.good(word)),
            "paused" | "creating" | "resuming" | "destroying" | "hibernated" => Some(self.unusual(word)),
            "failed" | "lost" | "no" | "quarantined" | "expired" | "revoked" => Some(self.bad(word)),
            _ => None,
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self.0 && !text.is_empty() {
            true => format!("{code}{text}{RESET}"),
            false => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_the_words_are_all_there_is() {
        assert_eq!(Ink(false).bad("error"), "error");
        assert_eq!(Ink(false).state("STATE", "lost").as_deref(), Some("lost"));
        assert_eq!(Ink(true).bad("error"), "\x1b[1;31merror\x1b[0m");
        assert_eq!(Ink(true).state("IMAGE", "lost"), None);
    }
}
