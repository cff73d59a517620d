//! The `host` image: the machine's own programs, without the machine's data.
//!
//! Sandboxes use `/usr` (and `/bin`, `/lib*` where they are separate directories) as they are, read-only. The rest
//! is a small generated tree: our own `passwd`, and from `/etc` only what programs need to run. No home directory,
//! no key, no service configuration gets in. We add one program, `python`; see [`python`].

mod etc;
mod python;
mod skeleton;

use std::io;
use std::path::{Path, PathBuf};

pub use skeleton::Skeleton;

/// The name users choose it by.
pub const NAME: &str = "host";

/// Directories of programs at the top of a tree.
const PROGRAM_DIRECTORIES: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// The layers of the image on this machine.
#[derive(Debug)]
pub struct Host {
    /// The generated tree.
    pub skeleton: PathBuf,
    /// Layers of the machine's own directories; those of one directory follow each other, the topmost first.
    pub shared: Vec<Shared>,
}

/// One layer of a directory of the machine.
#[derive(Debug)]
pub struct Shared {
    /// The directory's name at the top.
    pub name: &'static str,
    pub path: PathBuf,
}

/// Returns the image. Generates its tree under `store` if its sources have changed.
pub fn prepare(store: &Path) -> io::Result<Host> {
    let shared: Vec<_> = PROGRAM_DIRECTORIES.into_iter().filter(|name| is_directory(name)).collect();
    let links = PROGRAM_DIRECTORIES
        .into_iter()
        .filter_map(|name| Some((name, std::fs::read_link(Path::new("/").join(name)).ok()?)));
    let skeleton = Skeleton { store, shared: &shared, links: links.collect() }.ensure()?;
    let python = python::layer(store, Path::new("/usr"))?.map(|path| Shared { name: "usr", path });
    let shared = shared.into_iter().map(|name| Shared { name, path: Path::new("/").join(name) });
    // `usr` comes first in the list.
    Ok(Host { skeleton, shared: python.into_iter().chain(shared).collect() })
}

fn is_directory(name: &str) -> bool {
    std::fs::symlink_metadata(Path::new("/").join(name)).is_ok_and(|metadata| metadata.is_dir())
}
