//! Installs coracle in an MCP client: an entry in its settings, besides everything else in there.
//!
//! A file that cannot be read is left alone; a written one is written whole or not at all.

mod client;
mod json;
mod toml;
mod write;

use std::path::{Path, PathBuf};

use coracle_core::{Error, Kind, Result};
use serde_json::{Map, Value, json};

use self::client::Format;
pub use self::client::{Client, Scope};

/// The entry in the client's settings: a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub command: String,
    pub arguments: Vec<String>,
}

/// The name the client knows us by.
const NAME: &str = "coracle";

/// A settings file, and the entry for it.
#[derive(Debug, Clone)]
pub struct Installation {
    pub path: PathBuf,
    format: Format,
    entry: Entry,
}

/// Whether a file had to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Written,
    /// It had the entry already.
    Unchanged,
}

impl Installation {
    /// Chooses the file: below the person's home directory, or below that of the project.
    pub fn new(client: Client, scope: Scope, directory: &Path, entry: Entry) -> Self {
        Self { path: directory.join(client.file(scope)), format: client.format(), entry }
    }

    /// Returns the contents of a file with nothing else in it.
    pub fn snippet(&self) -> Result<String> {
        self.merged("")
    }

    /// Writes the entry.
    pub fn write(&self) -> Result<Outcome> {
        let before = write::read(&self.path)?;
        let after = self.merged(&before).map_err(|error| {
            Error::new(Kind::Conflict, format!("could not add `{NAME}` to `{}`", self.path.display()))
                .caused_by(error)
                .hint("the file is as it was; `--print` shows what to add by hand")
        })?;
        if before == after {
            return Ok(Outcome::Unchanged);
        }
        write::replace(&self.path, &after)?;
        Ok(Outcome::Written)
    }

    fn merged(&self, before: &str) -> Result<String> {
        match self.format {
            Format::Json { servers, .. } => json::merged(before, servers, NAME, &self.members()),
            Format::Toml { servers } => toml::merged(before, servers, NAME, &self.entry),
        }
    }

    /// Returns the members of the entry, as JSON.
    fn members(&self) -> Map<String, Value> {
        let Entry { command, arguments } = &self.entry;
        let kind = match self.format {
            Format::Json { typed: true, .. } => Some(("type", json!("stdio"))),
            Format::Json { typed: false, .. } | Format::Toml { .. } => None,
        };
        let program = [("command", json!(command)), ("args", json!(arguments))];
        kind.into_iter().chain(program).map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

/// Refuses to turn an entry with a `url` into a program: the other fields of one make no sense with the other.
fn expect_program(has_url: bool) -> Result<()> {
    match has_url {
        false => Ok(()),
        true => Err(Error::new(
            Kind::Invalid,
            format!("`{NAME}` has a `url` there, so it does not start a program"),
        )),
    }
}
