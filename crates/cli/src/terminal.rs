//! The person's terminal: its size, and raw mode while a command uses it.

use std::io;
use std::sync::OnceLock;

use coracle_engine::exec::Terminal;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

/// The size programs expect where there is no terminal.
const USUAL: Terminal = Terminal { rows: 24, columns: 80 };

/// The terminal's previous mode. Kept apart from the guard: code that ends the process early must reach it, too.
static BEFORE: OnceLock<Termios> = OnceLock::new();

/// Returns the size of the terminal, or the usual one.
pub fn size() -> Terminal {
    let found = tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stdin()));
    match found {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
            Terminal { rows: size.ws_row, columns: size.ws_col }
        }
        _ => USUAL,
    }
}

/// Returns how many columns standard output has, if it is a terminal.
pub fn width() -> Option<usize> {
    isatty(io::stdout()).then(|| usize::from(size().columns))
}

/// Tells whether standard input is a terminal.
pub fn is_typed_at() -> bool {
    isatty(io::stdin())
}

/// Tells whether standard error is a terminal that can draw.
pub fn is_drawn_on() -> bool {
    isatty(io::stderr()) && coracle::config::terminal().is_some_and(|kind| kind != "dumb")
}

/// Passes every key on as it is typed, until the value is dropped. Does nothing without a terminal.
pub fn raw() -> io::Result<Raw> {
    if is_typed_at() {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        BEFORE.get_or_init(|| before);
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
    }
    Ok(Raw(()))
}

/// Restores the terminal to the mode before the first [`raw`].
pub fn restore() {
    if let Some(before) = BEFORE.get() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, before);
    }
}

/// Raw mode.
#[derive(Debug)]
pub struct Raw(());

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}
