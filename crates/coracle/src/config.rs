//! Where settings come from: a flag, the environment, a file, the project, or the default, in this order.
//!
//! The only place that reads the environment. Everything else is told.

mod backends;
mod engines;
mod file;
mod home;
mod images;
mod languages;
mod layers;
mod mcp;
mod network;
mod project;
mod resolve;
mod serve;
pub mod systemd;
mod telemetry;
mod tenants;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use coracle_backends::Engines;
use coracle_core::{Epoch, Error, Home, Kind, Policy, Result, RunId};
use serde::Serialize;

pub use self::images::Registries;
pub use self::mcp::Models;
use self::resolve::Resolved;
pub use self::serve::Doors;
pub use self::telemetry::Telemetry;

/// Returns the file that says by how much the clock is off, for tests; builds that are shipped have no such thing.
#[cfg(debug_assertions)]
pub fn test_clock() -> Option<PathBuf> {
    std::env::var_os("CORACLE_TEST_CLOCK").map(PathBuf::from)
}

/// Settings given on the command line; they win over everything else.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    pub home: Option<PathBuf>,
    pub run: Option<RunId>,
    pub epoch: Option<Epoch>,
    /// The directory whose project may have a say; without it none has.
    pub project: Option<PathBuf>,
}

/// What an instance of coracle is told from outside.
#[derive(Debug, Clone)]
pub struct Config {
    /// The directory all state is kept in.
    pub home: Home,
    /// The operator's rules.
    pub policy: Policy,
    /// How registries are spoken to.
    pub registries: Registries,
    /// Where engines are, as far as anyone has said.
    pub engines: Engines,
    /// Who may speak to the daemon over the network.
    pub doors: Doors,
    /// What models get that come to the daemon without a token.
    pub mcp: Models,
    /// The run that owns what is opened.
    pub run: RunId,
    /// The epoch the caller believes in; without it the run's current lease counts.
    pub epoch: Option<Epoch>,
    /// How many sandboxes to keep made ahead, if anyone said so.
    pub spares: Option<usize>,
    /// Who is told of what is done here.
    pub telemetry: Telemetry,
    /// How long the output of closed sandboxes can be read; zero keeps none.
    pub logs_retention: Duration,
    /// What people should know of where settings come from.
    pub notes: Vec<String>,
    /// The named point at which the process kills itself, or with `stop:` before it stops, for crash tests.
    pub crash_at: Option<String>,
}

/// One value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub name: &'static str,
    pub value: String,
    pub source: Source,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Flag,
    /// The environment variable of this name.
    Environment(&'static str),
    File(PathBuf),
    /// The file of the project one works in.
    Project(PathBuf),
    Default,
}

impl Config {
    /// Reads the environment and the settings file.
    pub fn load(flags: Flags) -> Result<Self> {
        Ok(Self::from(resolve(flags)?))
    }

    /// Returns the defaults for a home, without a look at the environment or any file.
    pub fn at(home: impl Into<PathBuf>) -> Self {
        Self {
            home: Home::at(home),
            policy: Policy::default(),
            registries: Registries::default(),
            engines: Engines::default(),
            doors: Doors::default(),
            mcp: Models::default(),
            run: home::person(user()),
            epoch: None,
            spares: None,
            telemetry: Telemetry::default(),
            logs_retention: resolve::LOGS_RETENTION,
            notes: Vec::new(),
            crash_at: None,
        }
    }

    /// Acts as another run.
    pub fn acting_as(mut self, run: RunId) -> Self {
        self.run = run;
        self
    }
}

impl From<Resolved> for Config {
    fn from(resolved: Resolved) -> Self {
        Self {
            policy: resolved.policy(),
            registries: resolved.images.registries(),
            engines: resolved.engines(),
            doors: resolved.serve.doors(),
            mcp: resolved.mcp.models.value.clone(),
            home: Home::at(resolved.home.value),
            run: resolved.run.value,
            epoch: resolved.epoch.value,
            spares: resolved.spares.value,
            telemetry: resolved.telemetry.telemetry,
            logs_retention: resolved.logs_retention.value,
            notes: resolved.notes,
            crash_at: resolved.crash_at,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment(name) => write!(f, "environment ({name})"),
            Self::File(path) => write!(f, "file ({})", path.display()),
            Self::Project(path) => write!(f, "project ({})", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Returns every setting with its source.
pub fn settings(flags: Flags) -> Result<Vec<Setting>> {
    Ok(resolve(flags)?.settings())
}

/// Returns what a variable holds that the caller named, for `--secret NAME=env:VAR`.
///
/// The value appears in no error.
pub fn variable(name: &str) -> Result<String> {
    let impossible = name.is_empty() || name.contains(['=', '\0']);
    let value = if impossible { None } else { std::env::var_os(name) };
    let shown = name.escape_debug();
    let value = value
        .ok_or_else(|| Error::invalid("secret", format!("names the variable `{shown}`, which is not set")))?;
    value
        .into_string()
        .map_err(|_| Error::invalid("secret", format!("names the variable `{shown}`, which is not UTF-8")))
}

/// Returns what a variable holds that is passed on to a command by its name; nothing where it is not set.
pub fn passed_on(name: &str) -> Result<Option<String>> {
    let value = std::env::var_os(name).map(OsString::into_string).transpose();
    value.map_err(|_| Error::new(Kind::Invalid, format!("the variable `{name}` is not UTF-8 here")))
}

/// Returns the kind of terminal the caller sits at, for programs that draw on it.
pub fn terminal() -> Option<String> {
    std::env::var("TERM").ok()
}

/// Tells whether output is to be coloured: on terminals that can, unless the person says otherwise (`NO_COLOR`,
/// `CLICOLOR`, `CLICOLOR_FORCE`).
pub fn wants_colour(is_terminal: bool) -> bool {
    wants_colour_in(&environment, is_terminal)
}

fn wants_colour_in(variable: &dyn Fn(&str) -> Option<OsString>, is_terminal: bool) -> bool {
    let is = |name: &str, value: &str| variable(name).is_some_and(|found| found == value);
    if variable("NO_COLOR").is_some() {
        return false;
    }
    if variable("CLICOLOR_FORCE").is_some() && !is("CLICOLOR_FORCE", "0") {
        return true;
    }
    is_terminal && !is("CLICOLOR", "0") && !is("TERM", "dumb") && variable("TERM").is_some()
}

/// Returns the directory of the person who calls, where programs keep their settings.
pub fn directory_of_user() -> Option<PathBuf> {
    home::of_user(&environment)
}

/// Tells whether whoever calls a program of this name on this machine gets the one that runs now.
pub fn is_first_on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first =
        std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file());
    let real = |path: PathBuf| std::fs::canonicalize(path).ok();
    let (first, ourselves) = (first.and_then(real), std::env::current_exe().ok().and_then(real));
    first.is_some() && first == ourselves
}

fn setting(name: &'static str, value: String, source: &Source) -> Setting {
    Setting { name, value, source: source.clone() }
}

fn resolve(flags: Flags) -> Result<Resolved> {
    Resolved::from(flags, &environment, user())
}

/// What is set to nothing is not set.
fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_unless_somebody_says_otherwise() {
        let colour = |variables: &[(&str, &str)], is_terminal| {
            let find = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            };
            wants_colour_in(&find, is_terminal)
        };
        let term = ("TERM", "xterm");

        assert!(colour(&[term], true));
        assert!(!colour(&[term], false) && !colour(&[], true));
        assert!(!colour(&[("TERM", "dumb")], true));
        assert!(!colour(&[term, ("NO_COLOR", "1")], true));
        assert!(!colour(&[term, ("CLICOLOR", "0")], true) && colour(&[term, ("CLICOLOR", "1")], true));
        assert!(colour(&[("CLICOLOR_FORCE", "1")], false) && !colour(&[("CLICOLOR_FORCE", "0")], false));
        assert!(!colour(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], true));
    }
}
