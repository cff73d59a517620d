//! The cage: porter sees only the object directory, can change nothing, can gain no rights, and is bounded.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use coracle_porter::Failed;
use coracle_sys::rustix::process::{Resource, Rlimit, fchdir, setrlimit};
use coracle_sys::rustix::thread::set_no_new_privs;
use coracle_sys::{capability, mount};

/// Packs are mapped into memory, which costs room for addresses and no memory.
const ADDRESSES_MAX: u64 = 64 << 30;
/// What it may allocate: the largest object twice, and what it remembers of a history.
const MEMORY_MAX: u64 = 3 << 30;
/// Packs and their indexes.
const DESCRIPTORS_MAX: u64 = 1024;
/// Seconds of a processor.
const TIME_MAX: u64 = 300;

/// Makes the object directory the root: a mount from the host, or one of the path.
pub fn enter(mount: Option<OwnedFd>, path: Option<Vec<u8>>) -> Result<(), Failed> {
    let entered = || -> io::Result<()> {
        let directory = match (mount, path) {
            (Some(mount), _) => mount,
            (None, Some(path)) => copy(Path::new(OsStr::from_bytes(&path)))?,
            (None, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        mount::make_private()?;
        mount::attach(directory.as_fd(), "/")?;
        fchdir(&directory)?;
        mount::pivot()?;
        for (resource, value) in [
            (Resource::As, ADDRESSES_MAX),
            (Resource::Data, MEMORY_MAX),
            (Resource::Cpu, TIME_MAX),
            (Resource::Core, 0),
            (Resource::Nofile, DESCRIPTORS_MAX),
            (Resource::Nproc, 0),
            (Resource::Fsize, 0),
        ] {
            setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })?;
        }
        capability::bound(0)?;
        capability::keep(0)?;
        Ok(set_no_new_privs(true)?)
    };
    entered().map_err(|error| Failed::broken("enter the cage", error))
}

/// Makes a mount of a directory. Without privileges on the machine only this process can: it has some in its own
/// namespace.
fn copy(path: &Path) -> io::Result<OwnedFd> {
    let copy = mount::copy(path)?;
    let attributes =
        mount::plain() | mount::Attributes::MOUNT_ATTR_NOEXEC | mount::Attributes::MOUNT_ATTR_RDONLY;
    mount::set(copy.as_fd(), attributes, None)?;
    Ok(copy)
}
