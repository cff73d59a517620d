//! The cage: the unpacker sees only the layer's directory, can gain no rights, and has few system calls left.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use coracle_sys::rustix::fs::{Mode, OFlags, open};
use coracle_sys::rustix::process::{Resource, Rlimit, setrlimit};
use coracle_sys::{capability, mount, rustix, seccomp};
use coracle_unpack::{Order, Target};

const FILTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter"));

/// The largest window of a compressed stream is 128 MiB, and the unpacker keeps the names of directories until the
/// end.
const MEMORY_MAX: u64 = 1 << 30;
/// One for the parent directory, one for the file, a few while a tree is replaced.
const DESCRIPTORS_MAX: u64 = 64;

/// To set owners, modes and times of all users' files: `CHOWN`, `DAC_OVERRIDE`, `FOWNER`, `FSETID`.
const CAPABILITIES: u64 = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4;

/// A step that failed.
#[derive(Debug)]
pub struct Failure {
    pub attempted: &'static str,
    pub cause: io::Error,
}

fn at<E: Into<io::Error>>(attempted: &'static str) -> impl FnOnce(E) -> Failure {
    move |cause| Failure { attempted, cause: cause.into() }
}

/// Enters the cage. Returns its root, the directory to fill.
pub fn enter(order: &Order, mount: Option<OwnedFd>) -> Result<OwnedFd, Failure> {
    let target = match (&order.target, mount) {
        (Target::Mount, Some(mount)) => mount,
        (Target::Mount, None) => return Err(at("find the layer's mount")(io::ErrorKind::NotFound)),
        (Target::Path(path), _) => copy(path)?,
    };
    mount::make_private().map_err(at("make mounts private"))?;
    // Mounted on top of everything else, which is unmounted right after.
    mount::attach(target.as_fd(), "/").map_err(at("attach the layer's mount"))?;
    rustix::process::fchdir(&target).map_err(at("enter the layer's mount"))?;
    mount::pivot().map_err(at("make the layer the root"))?;
    drop(target);
    rustix::process::umask(Mode::empty());
    limit(order)?;
    capability::bound(0).map_err(at("drop capabilities"))?;
    capability::keep(CAPABILITIES).map_err(at("drop capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(at("renounce privileges"))?;
    let root = open("/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let root = root.map_err(at("open the layer"))?;
    seccomp::install(FILTER).map_err(at("install the filter"))?;
    Ok(root)
}

/// Makes a mount of the directory. Without privileges on the machine only this process can: it has some in its own
/// namespace.
fn copy(path: &[u8]) -> Result<OwnedFd, Failure> {
    let path = std::os::unix::ffi::OsStrExt::from_bytes(path);
    let copy = mount::copy(Path::new::<std::ffi::OsStr>(path)).map_err(at("make a mount of the layer"))?;
    let attributes = mount::plain() | mount::Attributes::MOUNT_ATTR_NOEXEC;
    mount::set(copy.as_fd(), attributes, None).map_err(at("restrict the layer's mount"))?;
    Ok(copy)
}

fn limit(order: &Order) -> Result<(), Failure> {
    for (resource, value) in [
        (Resource::As, MEMORY_MAX),
        (Resource::Core, 0),
        (Resource::Nofile, DESCRIPTORS_MAX),
        (Resource::Nproc, 0),
        (Resource::Fsize, order.limits.bytes),
    ] {
        let both = Rlimit { current: Some(value), maximum: Some(value) };
        setrlimit(resource, both).map_err(at("limit resources"))?;
    }
    Ok(())
}
