//! Telling an MCP client of us: an entry in its settings, beside whatever else is in there.
//!
//! A file that cannot be read is left alone, one that is written is written whole or not at all.

mod client;
mod json;
mod toml;
mod write;

use std::path::{Path, PathBuf};

use coracle_core::{Error, Kind, Result};
use serde_json::{Map, Value, json};

use self::client::Format;
pub use self::client::{Client, Scope};

/// What stands in the client's settings: a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub command: String,
    pub arguments: Vec<String>,
}

/// The name the client knows us by.
const NAME: &str = "coracle";

/// A file of settings, and what shall stand in it.
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
    /// It said so already.
    Unchanged,
}

impl Installation {
    /// Decides on the file: below the person's own directory, or below that of the project.
    pub fn new(client: Client, scope: Scope, directory: &Path, entry: Entry) -> Self {
        Self { path: directory.join(client.file(scope)), format: client.format(), entry }
    }

    /// Returns what a file with nothing else in it would hold.
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

    /// Returns what is set of the entry in JSON.
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

/// Refuses to make a program of an entry that is an address: what goes with the one makes no sense with the other.
fn expect_program(has_url: bool) -> Result<()> {
    match has_url {
        false => Ok(()),
        true => Err(Error::new(Kind::Invalid, format!("`{NAME}` has a `url` there, so it is no program"))),
    }
}
