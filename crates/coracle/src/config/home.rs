//! Where state is kept, and the run of the person who keeps it there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use coracle_core::{Error, Home, Kind, Result, RunId};

use super::Source;
use super::layers::{Environment, Found};

const ROOT: u32 = 0;

/// Returns the home: from the flag, from the environment, or the usual state directory of this user.
pub fn find(flag: Option<PathBuf>, environment: Environment<'_>, user: u32) -> Result<Found<PathBuf>> {
    let (path, source) = if let Some(path) = flag {
        (path, Source::Flag)
    } else if let Some(path) = environment("CORACLE_HOME") {
        (path.into(), Source::Environment("CORACLE_HOME"))
    } else if user == ROOT {
        ("/var/lib/coracle".into(), Source::Default)
    } else {
        (state_directory(environment)?.join("coracle"), Source::Default)
    };
    // Backends and keepers change directory; a relative home would then mean another place.
    let value = std::path::absolute(&path).map_err(|error| {
        Error::invalid("home", format!("`{}` is not a usable path", path.display())).caused_by(error)
    })?;
    Ok(Found { value, source })
}

/// Returns the settings files to look for, in order of precedence.
pub fn settings_files(home: &Path, environment: Environment<'_>) -> Vec<PathBuf> {
    let ours = Home::at(home).settings();
    let shared = absolute(environment("XDG_CONFIG_HOME")).or_else(|| in_home(environment, ".config"));
    std::iter::once(ours).chain(shared.map(|directory| directory.join("coracle/config.toml"))).collect()
}

/// Returns the run of a person at a terminal: always the same for one user in one home.
pub fn person(user: u32) -> RunId {
    format!("run_user_{user}").parse().expect("letters, digits and `_` make a run id")
}

/// Returns Docker's configuration directory.
pub fn docker_config(environment: Environment<'_>) -> Option<PathBuf> {
    in_home(environment, ".docker")
}

/// Returns the directory for sockets of this user's programs.
pub fn runtime_directory(environment: Environment<'_>) -> Option<PathBuf> {
    absolute(environment("XDG_RUNTIME_DIR"))
}

/// Returns the user's home directory.
pub fn of_user(environment: Environment<'_>) -> Option<PathBuf> {
    absolute(environment("HOME"))
}

fn state_directory(environment: Environment<'_>) -> Result<PathBuf> {
    let directory = absolute(environment("XDG_STATE_HOME")).or_else(|| in_home(environment, ".local/state"));
    directory.ok_or_else(|| {
        Error::new(Kind::Invalid, "could not find a place for state: `HOME` is not set")
            .hint("name a directory with `--home` or `CORACLE_HOME`")
    })
}

fn in_home(environment: Environment<'_>, below: &str) -> Option<PathBuf> {
    Some(absolute(environment("HOME"))?.join(below))
}

/// The XDG specification says to ignore relative paths.
fn absolute(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}
