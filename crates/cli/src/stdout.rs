//! Standard output: data, and nothing else.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use coracle::Error;
use serde::Serialize;

use super::stderr;
use super::stop::Stop;

/// Prints one JSON document; over several lines for people.
pub fn json(value: &impl Serialize) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    let written = match stdout.is_terminal() {
        true => serde_json::to_writer_pretty(&mut stdout, value),
        false => serde_json::to_writer(&mut stdout, value),
    };
    written.map_err(io::Error::from)?;
    stdout.write_all(b"\n")?;
    Ok(stdout.flush()?)
}

/// Prints one JSON document on one line.
pub fn json_line(value: &impl Serialize) -> Result<(), Stop> {
    let mut line = serde_json::to_vec(value).map_err(io::Error::from)?;
    line.push(b'\n');
    bytes(&line)
}

/// Prints a line of text.
pub fn line(text: &str) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    Ok(stdout.flush()?)
}

/// Names on standard error what was made if that could not be printed: it is there all the same.
pub fn or_name<T: Display>(
    printed: Result<(), Stop>,
    kind: &str,
    names: impl IntoIterator<Item = T>,
) -> Result<(), Stop> {
    printed.inspect_err(|_| {
        for name in names {
            stderr::note(&format!("{kind} `{name}` is there, though it could not be printed"));
        }
    })
}

/// Passes bytes on unchanged, at once.
pub fn bytes(bytes: &[u8]) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    Ok(stdout.flush()?)
}

/// Prints the error object. If that fails too, the exit code has to do.
pub fn error(error: &Error) {
    let _ = json(&error.to_json());
}

/// Standard output as a writer for code that does not expect its reader to leave.
#[derive(Debug, Default)]
pub struct Sink {
    unheard: bool,
}

impl Sink {
    /// Distinguishes a reader that left from every other failure.
    pub fn stop(&self, error: Error) -> Stop {
        if self.unheard { Stop::Unheard } else { Stop::Failed(error) }
    }
}

impl Write for Sink {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = io::stdout().write(buffer);
        self.unheard |= matches!(&written, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = io::stdout().flush();
        self.unheard |= matches!(&flushed, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
        flushed
    }
}
