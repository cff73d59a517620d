//! Sleep in place: the processes and cgroups of a sandbox end, and its directory stays as it is. A new guest goes on with it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use coracle_core::backend::{Created, Order};
use coracle_core::{Error, Kind, Result, SandboxId, Spec};
use coracle_sys::{mount, rustix};

use super::fork_source::{Base, Taken, open_root};
use super::privilege::Privilege;
use super::storage::Storage;
use super::{Native, create, destroy, disk, elsewhere};

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

/// Refuses to keep files that are in memory: because they were asked for there, or because this machine has no disks.
pub fn expect_keeping(spec: &Spec, privilege: Privilege) -> Result<()> {
    match Storage::choose(spec, privilege) {
        Storage::Disk(_) | Storage::Directory => Ok(()),
        Storage::Memory(_) => {
            let what = "could not promise to keep files without a guest: they are in memory here";
            Err(Error::new(Kind::Unsupported, what).hint("leave `on_idle` out").detail("field", "on_idle"))
        }
    }
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
    destroy::kill(native, sandbox, &cage).map_err(failed("end the processes"))?;
    (native.config.crash)("native.rest.killed");
    cage.remove().map_err(failed("remove the cgroup"))?;
    let size = sync(native, sandbox).map_err(failed("sync the files"))?;
    (native.config.crash)("native.rest.synced");
    Ok(size)
}

/// Writes all files to the disk, and returns how much space they take where that is known.
fn sync(native: &Native, sandbox: &SandboxId) -> io::Result<Option<u64>> {
    let mut size = None;
    for (index, (path, device)) in native.home.disks(sandbox).iter().enumerate() {
        // A filesystem of its own: what it holds in memory goes to its file first. Those it was forked from count as well:
        // a fork may have copied them a moment ago.
        let mounted = disk::mount_again(path, Some(device), None, mount::Attributes::empty())?;
        rustix::fs::syncfs(open_root(&mounted)?)?;
        if index == 0 {
            size = Some(File::open(path)?.metadata()?.blocks() * SECTOR);
        }
    }
    // The files of these filesystems, plain files, and the notes beside them are all on the home's own.
    rustix::fs::syncfs(File::open(native.home.place(sandbox))?)?;
    Ok(size)
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
    if below.len() != uses.bases.len() {
        return Err(io::Error::other("a disk they start from is missing"));
    }
    let bases = below.iter().zip(uses.bases).map(|(disk, generation)| base(disk, generation));
    let files = Taken {
        bases: bases.collect::<io::Result<_>>()?,
        origin: uses.origin.unwrap_or_else(|| spec.image.clone()),
        digest: uses.image,
    };
    Ok(KeptFiles { storage, device, files })
}

fn base((path, device): &(PathBuf, PathBuf), generation: u32) -> io::Result<Base> {
    Ok(Base { file: File::open(path)?, generation, device: device.clone() })
}
