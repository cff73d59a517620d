//! Volumes: directories that outlive sandboxes. As root each is a filesystem of a fixed size in a file; without
//! root, a plain directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coracle_core::volume::{Kept, Volumes};
use coracle_core::{Error, Kind, Result, SandboxId, Timestamp, VolumeName};
use coracle_sys::rustix::fs::{FlockOperation, flock};
use coracle_sys::rustix::io::Errno;
use coracle_sys::tree;

use super::Native;
use super::disk::{self, Purpose, Size};
use super::home::Uses;
use crate::place;

const DISK: &str = "disk";
const DATA: &str = "data";
const LOCK: &str = "lock";
/// Other processes hold a volume while they make a sandbox, which takes milliseconds, or format one.
const PATIENCE: Duration = Duration::from_secs(20);

/// One existing volume.
#[derive(Debug)]
pub struct Volume {
    pub name: VolumeName,
    /// Another sandbox uses it already.
    pub in_use: bool,
    directory: PathBuf,
    /// Keeps it from being removed until the sandbox has recorded that it uses it.
    _hold: File,
}

impl Volume {
    /// Returns the file with its filesystem, if it has its own.
    pub fn disk(&self) -> Option<PathBuf> {
        Some(self.directory.join(DISK)).filter(|disk| disk.exists())
    }

    /// Returns its directory, if it has no filesystem of its own.
    pub fn data(&self) -> PathBuf {
        self.directory.join(DATA)
    }
}

/// Finds a volume or makes it, and keeps it from being removed while the result lives. A sandbox that is about to
/// be replaced does not count as a user of it.
pub fn ensure(
    native: &Native,
    name: &VolumeName,
    size: Option<Size>,
    replaced: Option<&SandboxId>,
) -> Result<Volume> {
    let failed = |error| Error::internal(format!("could not open volume `{name}`"), error);
    place::private(&native.home.volumes).map_err(failed)?;
    let directory = native.home.volumes.join(name.as_str());
    let lock = lock(&directory, name)?;
    if !directory.join(DISK).exists() && !directory.join(DATA).exists() {
        make(native, &directory, size).map_err(failed)?;
    }
    // If a sandbox's record cannot be read, that sandbox may use the volume.
    let others = |uses| users(&uses, name).iter().any(|user| Some(user) != replaced);
    let in_use = native.home.uses().map_or(true, others);
    Ok(Volume { name: name.clone(), in_use, directory, _hold: lock })
}

/// Makes its content under another name first: it appears complete or not at all.
fn make(native: &Native, directory: &Path, size: Option<Size>) -> io::Result<()> {
    let draft = directory.join("draft");
    remove_entry(directory, "draft")?;
    match size.filter(|_| native.privilege.is_root() && disk::missing().is_none()) {
        Some(size) => {
            disk::make(&native.home.disks, &draft, size, Purpose::Volume)?;
            clear(&draft)?;
            fs::rename(draft, directory.join(DISK))
        }
        None => {
            fs::create_dir(&draft)?;
            make_open(&draft)?;
            fs::rename(draft, directory.join(DATA))
        }
    }
}

/// Empties a new filesystem of what mke2fs put there for repairs.
fn clear(disk: &Path) -> io::Result<()> {
    use coracle_sys::rustix::fs::{AtFlags, unlinkat};
    let mounted = disk::mount(disk, Purpose::Volume, None)?;
    Ok(unlinkat(&mounted.tree, "lost+found", AtFlags::REMOVEDIR)?)
}

fn make_open(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Keeps other processes from making, removing or beginning to use a volume. A removal removes the lock too, so
/// this checks that the locked file still exists.
fn lock(directory: &Path, name: &VolumeName) -> Result<File> {
    let failed = |error| Error::internal(format!("could not lock volume `{name}`"), error);
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        match try_lock(directory).map_err(failed)? {
            Some(lock) => return Ok(lock),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    Err(Error::new(Kind::Conflict, format!("volume `{name}` is being changed by another process"))
        .hint("try again"))
}

/// Locks a volume; `None` if another process holds the lock, or has just removed it.
fn try_lock(directory: &Path) -> io::Result<Option<File>> {
    place::private(directory)?;
    let path = directory.join(LOCK);
    let lock = match File::options().create(true).truncate(false).write(true).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        lock => lock?,
    };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        locked => locked?,
    }
    let number = lock.metadata()?.ino();
    Ok(fs::metadata(&path).is_ok_and(|found| found.ino() == number).then_some(lock))
}

impl Volumes for Native {
    fn list(&self) -> Result<Vec<Kept>> {
        let failed = |error| Error::internal("could not list the volumes", error);
        let entries = match fs::read_dir(&self.home.volumes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // Read once: a home may have a thousand sandboxes.
        let uses = self.home.uses().map_err(failed)?;
        let mut kept: Vec<_> = names.filter_map(|name| describe(self, name, &uses)).collect();
        kept.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(kept)
    }

    fn remove(&self, name: &VolumeName) -> Result<()> {
        let failed = |error| Error::internal(format!("could not remove volume `{name}`"), error);
        let directory = self.home.volumes.join(name.as_str());
        let unknown = || {
            Error::new(Kind::NotFound, format!("there is no volume `{name}`"))
                .hint("`coracle volume list` shows those there are")
        };
        if !directory.is_dir() {
            return Err(unknown());
        }
        let _lock = lock(&directory, name)?;
        let users = users(&self.home.uses().map_err(failed)?, name);
        if let Some(user) = users.first() {
            return Err(Error::new(Kind::Conflict, format!("volume `{name}` is used by sandbox `{user}`"))
                .detail("used_by", users.iter().map(SandboxId::as_str).collect::<Vec<_>>())
                .hint("close it first"));
        }
        [DISK, DATA, "draft"]
            .into_iter()
            .try_for_each(|entry| remove_entry(&directory, entry))
            .map_err(failed)?;
        let parent = File::open(&self.home.volumes).map_err(failed)?;
        let entry = std::ffi::CString::new(name.as_str()).map_err(|error| failed(io::Error::other(error)))?;
        tree::remove(parent.as_fd(), &entry).map_err(failed)
    }
}

fn describe(native: &Native, name: VolumeName, uses: &BTreeMap<SandboxId, Uses>) -> Option<Kept> {
    let directory = native.home.volumes.join(name.as_str());
    let disk = fs::metadata(directory.join(DISK)).ok();
    let found = disk.clone().or_else(|| fs::metadata(directory.join(DATA)).ok())?;
    let created = found.created().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    Some(Kept {
        used_by: users(uses, &name),
        name,
        size_bytes: Some(
            disk.as_ref().map_or_else(|| used(&directory.join(DATA)), |disk| disk.blocks() * 512),
        ),
        limit_mb: disk.map(|disk| disk.len() >> 20),
        created_at: Timestamp::from_millis(created.map_or(0, |time| time.as_millis() as u64)),
    })
}

/// Returns how much a directory uses. Agents wrote it, so this follows no link and returns only a count.
fn used(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, found)| if found.is_dir() { used(&path) } else { found.blocks() * 512 })
        .sum()
}

fn users(uses: &BTreeMap<SandboxId, Uses>, name: &VolumeName) -> Vec<SandboxId> {
    uses.iter().filter(|(_, uses)| uses.volumes.contains(name)).map(|(sandbox, _)| sandbox.clone()).collect()
}

fn remove_entry(directory: &Path, name: &str) -> io::Result<()> {
    let parent = File::open(directory)?;
    let name = std::ffi::CString::new(name).map_err(io::Error::other)?;
    tree::remove(parent.as_fd(), &name)
}
