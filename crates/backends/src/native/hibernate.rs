//! Sleep in place: the processes and cgroups of a sandbox end, and its directory stays as it is. A new guest goes on with it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_core::backend::{Created, Order};
use coracle_core::{Error, Kind, Result, SandboxId, Spec};
use coracle_sys::{mount, rustix, signal};

use super::fork_source::{Base, Taken};
use super::storage::Storage;
use super::{Native, create, disk, elsewhere};

/// The kernel ends killed processes at once, unless one is writing to a slow disk.
const KILL_TIME: Duration = Duration::from_secs(10);
/// What the kernel counts allocated space in.
const SECTOR: u64 = 512;

/// The files a sandbox wakes with.
#[derive(Debug)]
pub struct KeptFiles {
    pub storage: Storage,
    /// The device its own disk was last mounted from.
    pub device: PathBuf,
    /// The disks below its own, and the image below those.
    pub files: Taken,
}

/// Ends everything but the files, and writes these to the disk.
pub fn rest(native: &Native, sandbox: &SandboxId) -> Result<Option<u64>> {
    let failed = |what: &str| {
        let message = format!("could not {what} of sandbox `{sandbox}`");
        move |error: io::Error| Error::internal(message, error)
    };
    elsewhere::expect_ours(native, sandbox)?;
    if !native.home.has_files(sandbox) {
        let message = format!("the files of sandbox `{sandbox}` are not there");
        return Err(Error::new(Kind::NotFound, message).detail("sandbox_id", sandbox.as_str()));
    }
    let cage = native.cage(sandbox)?;
    cage.kill(KILL_TIME).map_err(failed("end the processes"))?;
    if let Some(guest) = native.children().remove(sandbox).map(|child| child.guest) {
        signal::reap_descriptor(&guest);
    }
    (native.config.crash)("native.rest.killed");
    cage.remove().map_err(failed("remove the cgroup"))?;
    let size = sync(native, sandbox).map_err(failed("sync the files"))?;
    (native.config.crash)("native.rest.synced");
    Ok(size)
}

/// Writes all files to the disk, and returns how much space they take where that is known.
fn sync(native: &Native, sandbox: &SandboxId) -> io::Result<Option<u64>> {
    let dir = native.home.dir(sandbox)?;
    let size = match native.home.disks(sandbox).first() {
        Some((own, device)) => {
            // A filesystem of its own: what it holds in memory goes to its file, and that to the disk.
            let mounted = disk::mount_again(own, Some(device), None, mount::Attributes::empty())?;
            rustix::fs::syncfs(open_root(&mounted)?)?;
            drop(mounted);
            let file = File::open(own)?;
            file.sync_all()?;
            Some(file.metadata()?.blocks() * SECTOR)
        }
        None => {
            rustix::fs::syncfs(File::open(dir.storage())?)?;
            None
        }
    };
    dir.sync()?;
    Ok(size)
}

fn open_root(mounted: &disk::Mounted) -> io::Result<rustix::fd::OwnedFd> {
    use rustix::fs::{Mode, OFlags, openat};
    Ok(openat(&mounted.tree, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Starts a new guest with the files of a sandbox at rest.
pub fn wake(native: &Native, order: &Order<'_>) -> Result<Created> {
    elsewhere::expect_ours(native, order.sandbox)?;
    let kept = find(native, order.sandbox, order.spec).map_err(|error| {
        Error::internal(format!("could not open the files of sandbox `{}`", order.sandbox), error)
    })?;
    create::wake(native, order, &kept).map_err(|error| match rest(native, order.sandbox) {
        Ok(_) => error,
        Err(left) => error.detail("left_behind", left.chain()),
    })
}

fn find(native: &Native, sandbox: &SandboxId, spec: &Spec) -> io::Result<KeptFiles> {
    let dir = native.home.dir(sandbox)?;
    let uses = native.home.uses_of(sandbox)?.unwrap_or_default();
    let disks = native.home.disks(sandbox);
    let chosen = Storage::choose(spec, native.privilege);
    let (storage, device, below) = match (disks.split_first(), chosen) {
        (Some(((_, device), below)), Storage::Disk(_)) => (chosen, device.clone(), below),
        (None, _) if dir.storage().exists() => (Storage::Directory, PathBuf::new(), &[][..]),
        // The machine offered disks when it was made, and does not now.
        _ => return Err(io::Error::other("they are on a disk, and this machine mounts none now")),
    };
    let bases = below.iter().zip(uses.bases).map(|(disk, generation)| base(disk, generation));
    let files = Taken {
        bases: bases.collect::<io::Result<_>>()?,
        origin: uses.origin.unwrap_or_else(|| spec.image.clone()),
        digest: uses.image,
    };
    Ok(KeptFiles { storage, device, files })
}

fn base((path, device): &(PathBuf, PathBuf), generation: u32) -> io::Result<Base> {
    let file = open_to_write(path).or_else(|_| File::open(path))?;
    Ok(Base { file, generation, device: device.clone() })
}

fn open_to_write(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}
