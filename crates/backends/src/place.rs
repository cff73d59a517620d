//! Places in the home: directories of our own, and sockets in them.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A socket's path has at most 107 bytes, and the home's may be longer: it is named through a descriptor.
pub fn short_path(directory: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))
}

/// Makes a directory nobody else may enter; what is executed from it or written through it is ours alone.
pub fn private(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))
        }
        result => result,
    }
}
