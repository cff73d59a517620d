//! The directories a caller mounts in a sandbox, found and checked before anything is made.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coracle_core::backend::Order;
use coracle_core::mount::{Access, Mount, Source};
use coracle_core::{Result, Spec, VolumeName};

use crate::directory;
use crate::native::Native;
use crate::native::disk::Size;
use crate::native::volumes::{self, Volume};

/// A directory that exists.
#[derive(Debug)]
pub struct Brought {
    pub path: PathBuf,
    /// The very directory that was checked, if it is the machine's: its name may lead elsewhere a moment later.
    pub directory: Option<File>,
    /// The file with its filesystem, if it has its own.
    pub disk: Option<PathBuf>,
    pub access: Access,
    /// Keeps a volume from being removed until the sandbox has recorded that it uses it.
    volume: Option<Arc<Volume>>,
}

impl Brought {
    /// Returns the volume's name, if another sandbox uses it.
    pub fn volume_in_use(&self) -> Option<&VolumeName> {
        self.volume.as_deref().filter(|volume| volume.in_use).map(|volume| &volume.name)
    }
}

/// Finds all of them.
pub fn all(native: &Native, order: &Order<'_>) -> Result<Vec<Brought>> {
    let spec = order.spec;
    // Each once and in one order: two callers that want the same volumes must not deadlock.
    let names: BTreeSet<_> = volumes(spec).into_iter().collect();
    let volumes = names.into_iter().map(|name| {
        let volume = volumes::ensure(native, &name, size(spec), order.replaces)?;
        Ok((name, Arc::new(volume)))
    });
    let volumes = volumes.collect::<Result<BTreeMap<_, _>>>()?;
    let sockets = if spec.allow_sockets { Sockets::Allow } else { Sockets::Refuse };
    spec.mounts.iter().map(|mount| one(native, mount, &volumes, sockets)).collect()
}

/// Returns the volumes among them.
pub fn volumes(spec: &Spec) -> Vec<VolumeName> {
    let volume = |mount: &Mount| match &mount.source {
        Source::Volume(name) => Some(name.clone()),
        Source::Directory(_) => None,
    };
    spec.mounts.iter().filter_map(volume).collect()
}

/// What to do about sockets in directories of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sockets {
    Refuse,
    Allow,
}

fn one(
    native: &Native,
    mount: &Mount,
    volumes: &BTreeMap<VolumeName, Arc<Volume>>,
    sockets: Sockets,
) -> Result<Brought> {
    let access = mount.access;
    match &mount.source {
        Source::Directory(path) => {
            let within = mount.within.as_deref();
            let (path, directory) = directory::find(native.config.home.path(), Path::new(path), within)?;
            if sockets == Sockets::Refuse && access != Access::Overlay {
                directory::sockets::expect_none(directory.as_fd(), &path)?;
            }
            Ok(Brought { path, directory: Some(directory), disk: None, access, volume: None })
        }
        Source::Volume(name) => {
            let volume = &volumes[name];
            Ok(Brought {
                path: volume.data(),
                directory: None,
                disk: volume.disk(),
                access,
                volume: Some(volume.clone()),
            })
        }
    }
}

/// A new volume has room for what the sandbox it is made for may write.
fn size(spec: &Spec) -> Option<Size> {
    Some(Size { megabytes: spec.limits.workspace_mb?, inodes: spec.limits.inodes? })
}
