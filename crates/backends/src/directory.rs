//! A directory of the machine that a caller wants to mount in a sandbox.

pub mod sockets;

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use coracle_core::{Error, Kind, Result};

const O_PATH: i32 = 0o10_000_000;

/// Finds a directory of the machine. Refuses one that contains our own state, or is inside it: the sandbox would
/// get that.
pub fn find(home: &Path, path: &Path, within: Option<&[String]>) -> Result<(PathBuf, File)> {
    let refuse = |problem: &str| {
        Error::new(Kind::Invalid, format!("could not mount `{}`: {problem}", path.display()))
            .detail("field", "mounts.source")
    };
    let missing = |error| {
        refuse("it cannot be found").caused_by(error).hint("name a directory that is there on this machine")
    };
    let directory = File::options().read(true).custom_flags(O_PATH).open(path).map_err(missing)?;
    let found = fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).map_err(missing)?;
    if !directory.metadata().map_err(missing)?.is_dir() {
        return Err(refuse("it is not a directory"));
    }
    // The caller checked it by its name; a link may still lead out of what the operator allows.
    let is_in = |root: &String| fs::canonicalize(root).is_ok_and(|root| found.starts_with(root));
    if within.is_some_and(|roots| !roots.iter().any(is_in)) {
        return Err(refuse("it leads to a place the operator does not allow (`mounts.allow`)"));
    }
    let home = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    if home.starts_with(&found) || found.starts_with(&home) {
        return Err(refuse("coracle keeps its own state there"));
    }
    Ok((found, directory))
}
