//! Where settings come from: a flag, the environment, a file, the project, or the default, in this order.
//!
//! The only place that reads the environment. Everything else gets its settings passed in.

mod backends;
mod engines;
mod file;
mod home;
mod images;
mod install;
mod languages;
mod layers;
mod mcp;
mod network;
mod project;
mod repos;
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
pub use self::repos::Repos;
use self::resolve::Resolved;
pub use self::serve::Doors;
pub use self::telemetry::Telemetry;

/// Returns the file that shifts the clock, for tests; released builds do not have it.
#[cfg(debug_assertions)]
pub fn test_clock() -> Option<PathBuf> {
    std::env::var_os("CORACLE_TEST_CLOCK").map(PathBuf::from)
}

/// Settings from the command line; they override everything else.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    pub home: Option<PathBuf>,
    pub run: Option<RunId>,
    pub epoch: Option<Epoch>,
    /// The directory whose project file is read; none if absent.
    pub project: Option<PathBuf>,
}

/// The settings of a coracle process.
#[derive(Debug, Clone)]
pub struct Config {
    /// The directory all state is kept in.
    pub home: Home,
    /// The operator's rules.
    pub policy: Policy,
    /// How to talk to registries.
    pub registries: Registries,
    /// Where container engines are, as far as configured.
    pub engines: Engines,
    /// Which hosts and origins may reach the daemon over the network.
    pub doors: Doors,
    /// What models without a token get from the daemon.
    pub mcp: Models,
    /// The run that owns opened sandboxes.
    pub run: RunId,
    /// The epoch the caller expects; if absent, the run's current lease counts.
    pub epoch: Option<Epoch>,
    /// How many spares to keep, if configured.
    pub spares: Option<usize>,
    /// Where telemetry is sent.
    pub telemetry: Telemetry,
    /// How long the output of closed sandboxes can be read; zero keeps none.
    pub logs_retention: Duration,
    /// What is settled for hosted repositories.
    pub repos: Repos,
    /// Notes for people on where settings come from.
    pub notes: Vec<String>,
    /// The crash point at which the process kills itself, or stops if prefixed with `stop:`, for crash tests.
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
    /// The project file of the working directory.
    Project(PathBuf),
    Default,
}

impl Config {
    /// Reads the environment and the settings file.
    pub fn load(flags: Flags) -> Result<Self> {
        Ok(Self::from(resolve(flags)?))
    }

    /// Returns the defaults for a home, without reading the environment or any file.
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
            repos: Repos::default(),
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
            repos: resolved.repos.repos(),
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

/// Returns the value of a variable the caller named, for `--secret NAME=env:VAR`.
///
/// No error contains the value.
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

/// Returns the value of a variable that is passed on to a command by name; `None` if it is not set.
pub fn passed_on(name: &str) -> Result<Option<String>> {
    let value = std::env::var_os(name).map(OsString::into_string).transpose();
    value.map_err(|_| Error::new(Kind::Invalid, format!("the variable `{name}` is not UTF-8 here")))
}

/// Returns the kind of the caller's terminal, for programs that draw on it.
pub fn terminal() -> Option<String> {
    std::env::var("TERM").ok()
}

/// Tells whether to colour output: on terminals that can, unless the person says otherwise (`NO_COLOR`, `CLICOLOR`,
/// `CLICOLOR_FORCE`).
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

/// Returns the calling person's home directory, where programs keep their settings.
pub fn directory_of_user() -> Option<PathBuf> {
    home::of_user(&environment)
}

/// Tells whether the first program of this name on `PATH` is the running one.
pub fn is_first_on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first =
        std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file());
    let real = |path: PathBuf| std::fs::canonicalize(path).ok();
    let (first, ourselves) = (first.and_then(real), std::env::current_exe().ok().and_then(real));
    first.is_some() && first == ourselves
}

/// Returns the version of its protocol that git asks a helper for.
pub fn git_protocol() -> Option<String> {
    environment("GIT_PROTOCOL").and_then(|text| text.into_string().ok())
}

/// Returns where programs of the machine are looked for.
fn search_path() -> OsString {
    environment("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

fn setting(name: &'static str, value: String, source: &Source) -> Setting {
    Setting { name, value, source: source.clone() }
}

fn resolve(flags: Flags) -> Result<Resolved> {
    Resolved::from(flags, &environment, user())
}

/// An empty variable counts as not set.
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
    fn colour_is_for_terminals_unless_a_variable_says_otherwise() {
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
