//! A filesystem of a fixed size in a sparse file: the kernel bounds what is written to it, and removing the file
//! removes a million files at once.
//!
//! Making one takes 20 ms, so we make each size once and copy it: its structures are only a few hundred KiB.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use coracle_core::Cancel;
use coracle_sys::mount::{self, Attributes};
use coracle_sys::{block, rustix};

use crate::weak;

/// Where distributions install it; the search path of a service often lacks these directories.
const FORMATTERS: [&str; 2] = ["/usr/sbin/mke2fs", "/sbin/mke2fs"];
/// Space for structures beside the files: a little, and the inode table. A small disk has fewer of them, and gains
/// a little space that was not asked for.
const SLACK: u64 = 4 << 20;
const LEAST_SLACK: u64 = 256 << 10;
const INODE: u64 = 256;
/// There can never be more files than blocks.
const BLOCK: u64 = 4096;
/// Callers choose sizes; we keep no more patterns than this.
const PATTERNS_MAX: usize = 16;
/// How much is copied between two looks at whether the call was cancelled: a fraction of a second on a slow disk.
const PIECE: usize = 16 << 20;

/// What a filesystem is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Removed with its sandbox: what is written to it need not survive a power cut, until the sandbox sleeps.
    Scratch,
    /// Outlives sandboxes and reboots.
    Volume,
}

/// How much a filesystem holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub megabytes: u64,
    pub inodes: u64,
}

impl Size {
    fn inodes(self) -> u64 {
        self.inodes.min((self.megabytes << 20) / BLOCK).max(16)
    }

    /// Returns how many files there really is room for: mke2fs rounds up in each part of a filesystem.
    pub fn rounded_inodes(self) -> u64 {
        const PART: u64 = 128 << 20;
        const FEW: u64 = 16;
        let parts = self.bytes(Purpose::Scratch).div_ceil(PART);
        self.inodes().div_ceil(parts).next_multiple_of(FEW) * parts
    }

    fn bytes(self, purpose: Purpose) -> u64 {
        let room = self.megabytes << 20;
        let slack = match purpose {
            Purpose::Scratch => (room / 16).clamp(LEAST_SLACK, SLACK),
            // The journal takes most of it.
            Purpose::Volume => SLACK,
        };
        room + self.inodes() * INODE + slack
    }
}

/// A filesystem that is mounted but not attached yet.
#[derive(Debug)]
pub struct Mounted {
    pub tree: OwnedFd,
    pub device: PathBuf,
}

/// Returns why disks cannot be made here, if they cannot.
pub fn missing() -> Option<&'static str> {
    match (block::is_available(), formatter()) {
        (false, _) => Some("there are no loop devices"),
        (true, None) => Some("`mke2fs` is not installed"),
        (true, Some(_)) => None,
    }
}

/// Makes a filesystem in a new file at `path`. Keeps patterns in `patterns`.
pub fn make(patterns: &Path, path: &Path, size: Size, purpose: Purpose) -> io::Result<()> {
    let from = open_pattern(patterns, size, purpose)?;
    let to = File::options().write(true).create_new(true).open(path)?;
    to.set_len(size.bytes(purpose))?;
    copy_data(&from, &to, &Cancel::default())
}

/// Mounts the filesystem in the file, detached, with its files mapped to the ids of `namespace`.
pub fn mount(path: &Path, purpose: Purpose, namespace: Option<BorrowedFd<'_>>) -> io::Result<Mounted> {
    let file = File::options().read(true).write(true).open(path)?;
    // If the filesystem is already mounted, mount it from the same device again; two devices would corrupt it.
    let found = if purpose == Purpose::Volume { block::find(&file)? } else { None };
    let device = match found {
        Some(device) => device,
        None => block::attach(file.as_fd())?,
    };
    let source = device.path.to_string_lossy();
    let mut options = vec![("source", Some(&*source)), ("discard", None), ("noinit_itable", None)];
    if purpose == Purpose::Scratch {
        // The files need not survive a power cut, so do not wait for the machine's disk.
        options.push(("nobarrier", None));
    }
    let mounted = mount::make("ext4", &options, weak::plain())?;
    mount::set(mounted.as_fd(), weak::plain(), weak::mapped(namespace))?;
    Ok(Mounted { tree: mounted, device: device.path.clone() })
}

/// Mounts a filesystem for reading that other sandboxes have mounted or will mount: from the same device as they,
/// or it would be corrupted. `known` is the device it was last seen on.
pub fn mount_again(
    path: &Path,
    known: Option<&Path>,
    namespace: Option<BorrowedFd<'_>>,
    attributes: Attributes,
) -> io::Result<Mounted> {
    // Two callers that both find no device would make two. Open the lock separately: a device keeps its file open,
    // and with it a lock on that.
    let lock = File::open(path)?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;
    let file = File::options().read(true).write(true).open(path)?;
    let remembered = known.map(|known| block::open(known, &file)).transpose()?.flatten();
    let device = match remembered.map_or_else(|| block::find(&file), |device| Ok(Some(device)))? {
        Some(device) => device,
        None => block::attach(file.as_fd())?,
    };
    let source = device.path.to_string_lossy();
    let mut options = vec![("source", Some(&*source)), ("noinit_itable", None), ("nobarrier", None)];
    // Mount a read-only copy so that not even the mount itself is recorded in it.
    if file.metadata()?.permissions().readonly() {
        options.push(("ro", None));
    } else {
        options.push(("discard", None));
    }
    let mounted = mount::make("ext4", &options, weak::plain())?;
    mount::set(mounted.as_fd(), weak::plain() | attributes, weak::mapped(namespace))?;
    Ok(Mounted { tree: mounted, device: device.path.clone() })
}

/// Copies a filesystem that no process writes to into a nameless file in `directory`, unless the call is cancelled.
pub fn copy(path: &Path, directory: &Path, cancel: &Cancel) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let from = File::open(path)?;
    let to = File::options()
        .read(true)
        .write(true)
        .custom_flags(rustix::fs::OFlags::TMPFILE.bits() as i32)
        .mode(0o400)
        .open(directory)?;
    to.set_len(from.metadata()?.len())?;
    copy_data(&from, &to, cancel)?;
    Ok(to)
}

/// Tells whether the file has another name, so that another sandbox may use the filesystem in it.
pub fn is_shared(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(fs::metadata(path)?.nlink() > 1)
}

/// Ends the filesystem in the file, if it is mounted, without writing what it still holds in memory: half a
/// gigabyte of that takes a second, and the file is about to be removed. `device` is what [`mount`] returned.
pub fn abandon(path: &Path, device: &Path) -> io::Result<()> {
    // Keep the device open, so that it cannot get another file between the check and the end.
    let held = File::options().read(true).write(true).open(device)?;
    if !block::is_made_of(&held, &File::open(path)?)? {
        return Ok(());
    }
    let source = device.to_string_lossy();
    let mounted = mount::make("ext4", &[("source", Some(&*source))], mount::plain())?;
    block::shut_down(mounted.as_fd())
}

/// Opens the pattern of this size. Another process may remove it between the look and the opening.
fn open_pattern(patterns: &Path, size: Size, purpose: Purpose) -> io::Result<File> {
    for _ in 0..PATTERNS_MAX {
        match File::open(pattern(patterns, size, purpose)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
    }
    File::open(pattern(patterns, size, purpose)?)
}

/// Returns the file that a filesystem of this size is copied from. Makes it if it is missing.
fn pattern(patterns: &Path, size: Size, purpose: Purpose) -> io::Result<PathBuf> {
    // Patterns of an older coracle have another size under the same numbers, so the size is part of the name.
    let kind = format!("{purpose:?}").to_lowercase();
    let finished = patterns.join(format!("{kind}-{}-{}", size.bytes(purpose), size.inodes()));
    if finished.exists() {
        return Ok(finished);
    }
    crate::place::private(patterns)?;
    forget_oldest(patterns)?;
    // The name is this thread's alone. An existing draft is from an earlier process with the same pid.
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let draft = patterns.join(format!(".draft-{}-{serial}", std::process::id()));
    let _ = fs::remove_file(&draft);
    File::create_new(&draft)?.set_len(size.bytes(purpose))?;
    format(&draft, size, purpose)?;
    fs::rename(&draft, &finished)?;
    Ok(finished)
}

/// Makes room for one more. A process that is about to copy the removed one makes it anew.
fn forget_oldest(patterns: &Path) -> io::Result<()> {
    let entries = fs::read_dir(patterns)?.flatten();
    let finished = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let mut aged: Vec<_> =
        finished.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    aged.sort();
    for (_, path) in aged.iter().take(aged.len().saturating_sub(PATTERNS_MAX - 1)) {
        let _ = fs::remove_file(path);
    }
    Ok(())
}

fn format(file: &Path, size: Size, purpose: Purpose) -> io::Result<()> {
    let formatter = formatter().ok_or_else(|| io::Error::other("`mke2fs` is not installed"))?;
    let features = match purpose {
        Purpose::Scratch => "^has_journal,^resize_inode",
        Purpose::Volume => "has_journal,^resize_inode",
    };
    let output = Command::new(formatter)
        .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-I", "256", "-O", features])
        .args(["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0"])
        .args(["-N", &size.inodes().to_string()])
        .arg(file)
        .env_clear()
        .stdin(Stdio::null())
        .output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("mke2fs: {}", String::from_utf8_lossy(&output.stderr).trim()))),
    }
}

fn formatter() -> Option<&'static str> {
    FORMATTERS.into_iter().find(|path| Path::new(path).exists())
}

/// Copies everything but holes. Fails between two pieces if the call is cancelled.
fn copy_data(from: &File, to: &File, cancel: &Cancel) -> io::Result<()> {
    use rustix::fs::{SeekFrom, copy_file_range, seek};
    let mut position = 0;
    loop {
        let start = match seek(from, SeekFrom::Data(position)) {
            Err(rustix::io::Errno::NXIO) => return Ok(()),
            start => start?,
        };
        let end = seek(from, SeekFrom::Hole(start))?;
        let (mut source, mut target) = (start, start);
        while source < end {
            if cancel.is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let length = usize::try_from(end - source).unwrap_or(usize::MAX).min(PIECE);
            if copy_file_range(from, Some(&mut source), to, Some(&mut target), length)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        position = end;
    }
}
