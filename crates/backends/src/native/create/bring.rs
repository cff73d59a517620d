//! The directories a caller brings into a sandbox, found and checked before anything is made.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coracle_core::mount::{Access, Mount, Source};
use coracle_core::{Error, Kind, Result, Spec, VolumeName};

use crate::native::Native;
use crate::native::disk::Size;
use crate::native::volumes::{self, Volume};

const O_PATH: i32 = 0o10_000_000;

/// A directory that is there.
#[derive(Debug)]
pub struct Brought {
    pub path: PathBuf,
    /// The very directory that was checked, where it is the machine's: its name may lead elsewhere a moment later.
    pub directory: Option<File>,
    /// The file with the filesystem it is in, if that is its own.
    pub disk: Option<PathBuf>,
    pub access: Access,
    /// Keeps a volume from being removed until the sandbox's note of it is written.
    _volume: Option<Arc<Volume>>,
}

/// Finds all of them.
pub fn all(native: &Native, spec: &Spec) -> Result<Vec<Brought>> {
    // Each once and in one order: two who want the same volumes must not wait for each other.
    let names: BTreeSet<_> = volumes(spec).into_iter().collect();
    let volumes = names.into_iter().map(|name| {
        let volume = volumes::ensure(native, &name, size(spec))?;
        Ok((name, Arc::new(volume)))
    });
    let volumes = volumes.collect::<Result<BTreeMap<_, _>>>()?;
    spec.mounts.iter().map(|mount| one(native, mount, &volumes)).collect()
}

/// Returns the volumes among them.
pub fn volumes(spec: &Spec) -> Vec<VolumeName> {
    let volume = |mount: &Mount| match &mount.source {
        Source::Volume(name) => Some(name.clone()),
        Source::Directory(_) => None,
    };
    spec.mounts.iter().filter_map(volume).collect()
}

fn one(native: &Native, mount: &Mount, volumes: &BTreeMap<VolumeName, Arc<Volume>>) -> Result<Brought> {
    let access = mount.access;
    match &mount.source {
        Source::Directory(path) => {
            let (path, directory) = directory(native, Path::new(path), mount.within.as_deref())?;
            Ok(Brought { path, directory: Some(directory), disk: None, access, _volume: None })
        }
        Source::Volume(name) => {
            let volume = &volumes[name];
            Ok(Brought {
                path: volume.data(),
                directory: None,
                disk: volume.disk(),
                access,
                _volume: Some(volume.clone()),
            })
        }
    }
}

/// A new volume holds what the sandbox it is made for may write.
fn size(spec: &Spec) -> Option<Size> {
    Some(Size { megabytes: spec.limits.workspace_mb?, inodes: spec.limits.inodes? })
}

/// Finds a directory of the machine. One that holds our own state, or is in it, would hand that to the sandbox.
fn directory(native: &Native, path: &Path, within: Option<&[String]>) -> Result<(PathBuf, File)> {
    let refuse = |problem: &str| {
        Error::new(Kind::Invalid, format!("could not mount `{}`: {problem}", path.display()))
            .detail("field", "mounts.source")
    };
    let missing =
        |error| refuse("it cannot be found").caused_by(error).hint("the path is one of this machine");
    let directory = File::options().read(true).custom_flags(O_PATH).open(path).map_err(missing)?;
    let found = fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).map_err(missing)?;
    if !directory.metadata().map_err(missing)?.is_dir() {
        return Err(refuse("it is not a directory"));
    }
    // By its name it was looked at before; a link may lead out of what the operator allows.
    let is_in = |root: &String| fs::canonicalize(root).is_ok_and(|root| found.starts_with(root));
    if within.is_some_and(|roots| !roots.iter().any(is_in)) {
        return Err(refuse("it leads to a place the operator does not allow (`mounts.allow`)"));
    }
    let home = fs::canonicalize(&native.setting.home).unwrap_or_else(|_| native.setting.home.clone());
    if home.starts_with(&found) || found.starts_with(&home) {
        return Err(refuse("coracle keeps its own state there"));
    }
    Ok((found, directory))
}
