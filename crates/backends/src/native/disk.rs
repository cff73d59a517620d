//! A filesystem of a fixed size in a sparse file: what is written to it is bounded by the kernel, and removing the
//! file removes a million files at once.
//!
//! Making one takes 20 ms, so each size is made once and copied: what is in it are a few hundred KiB of structures.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use coracle_sys::mount::{self, Attributes};
use coracle_sys::{block, rustix};

use crate::weak;

/// Where distributions have it; the search path of a service often has not.
const FORMATTERS: [&str; 2] = ["/usr/sbin/mke2fs", "/sbin/mke2fs"];
/// Structures beside the files: a little, and the table of files. A small disk has less of them, and what they leave over is
/// room nobody asked for.
const SLACK: u64 = 4 << 20;
const LEAST_SLACK: u64 = 256 << 10;
const INODE: u64 = 256;
/// More files than blocks could never be made.
const BLOCK: u64 = 4096;
/// Sizes are callers' to choose; patterns of more than this many are not kept.
const PATTERNS_MAX: usize = 16;

/// What a filesystem is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Gone with its sandbox: nothing in it need survive a power cut.
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

    /// Returns how many files there really is room for: each part of a filesystem has room for a few.
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

/// A filesystem that is mounted, attached nowhere yet.
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

/// Makes a filesystem in a new file at `path`. Patterns are kept in `patterns`.
pub fn make(patterns: &Path, path: &Path, size: Size, purpose: Purpose) -> io::Result<()> {
    let from = open_pattern(patterns, size, purpose)?;
    let to = File::options().write(true).create_new(true).open(path)?;
    to.set_len(size.bytes(purpose))?;
    copy_data(&from, &to)
}

/// Mounts the filesystem in the file, detached, shown with the ids of `namespace`.
pub fn mount(path: &Path, purpose: Purpose, namespace: Option<BorrowedFd<'_>>) -> io::Result<Mounted> {
    let file = File::options().read(true).write(true).open(path)?;
    // A filesystem that is mounted already must be mounted from the same device again, or it would be torn apart.
    let found = if purpose == Purpose::Volume { block::find(&file)? } else { None };
    let device = match found {
        Some(device) => device,
        None => block::attach(file.as_fd())?,
    };
    let source = device.path.to_string_lossy();
    let mut options = vec![("source", Some(&*source)), ("discard", None), ("noinit_itable", None)];
    if purpose == Purpose::Scratch {
        // Waiting for the machine's disk would keep a promise nobody made.
        options.push(("nobarrier", None));
    }
    let mounted = mount::make("ext4", &options, weak::plain())?;
    mount::set(mounted.as_fd(), weak::plain(), weak::mapped(namespace))?;
    Ok(Mounted { tree: mounted, device: device.path.clone() })
}

/// Mounts a filesystem that others have mounted or will mount, to be read: from the same device as they, or it would be
/// torn apart. `known` is the device it was last seen on.
pub fn mount_again(
    path: &Path,
    known: Option<&Path>,
    namespace: Option<BorrowedFd<'_>>,
    attributes: Attributes,
) -> io::Result<Mounted> {
    // Of two who find no device, one would make a second. Opened apart: a device keeps what it was made of open, and a
    // lock with it.
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
    // A copy that nobody may write to does not even learn that it was mounted.
    if file.metadata()?.permissions().readonly() {
        options.push(("ro", None));
    }
    let mounted = mount::make("ext4", &options, weak::plain())?;
    mount::set(mounted.as_fd(), weak::plain() | attributes, weak::mapped(namespace))?;
    Ok(Mounted { tree: mounted, device: device.path.clone() })
}

/// Copies a filesystem that nobody writes to into a file that has no name yet, in `directory`.
pub fn copy(path: &Path, directory: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let from = File::open(path)?;
    let to = File::options()
        .read(true)
        .write(true)
        .custom_flags(rustix::fs::OFlags::TMPFILE.bits() as i32)
        .mode(0o400)
        .open(directory)?;
    to.set_len(from.metadata()?.len())?;
    copy_data(&from, &to)?;
    Ok(to)
}

/// Tells whether others have the file under another name, and may use the filesystem in it.
pub fn is_shared(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(fs::metadata(path)?.nlink() > 1)
}

/// Ends the filesystem in the file, if it is mounted, without writing what it still holds in memory: half a gigabyte of
/// that takes a second, and the file is about to go. `device` is what [`mount`] returned.
pub fn abandon(path: &Path, device: &Path) -> io::Result<()> {
    // The device is held, so that it cannot become another's between the look and the end.
    let held = File::options().read(true).write(true).open(device)?;
    if !block::is_made_of(&held, &File::open(path)?)? {
        return Ok(());
    }
    let source = device.to_string_lossy();
    let mounted = mount::make("ext4", &[("source", Some(&*source))], mount::plain())?;
    block::shut_down(mounted.as_fd())
}

/// Opens the file a filesystem of this size is copied from. It may be forgotten between the look and the opening.
fn open_pattern(patterns: &Path, size: Size, purpose: Purpose) -> io::Result<File> {
    for _ in 0..PATTERNS_MAX {
        match File::open(pattern(patterns, size, purpose)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
    }
    File::open(pattern(patterns, size, purpose)?)
}

/// Returns the file a filesystem of this size is copied from, making it if it is not there.
fn pattern(patterns: &Path, size: Size, purpose: Purpose) -> io::Result<PathBuf> {
    // Patterns of an older coracle have another size under the same numbers, so it is part of the name.
    let kind = format!("{purpose:?}").to_lowercase();
    let finished = patterns.join(format!("{kind}-{}-{}", size.bytes(purpose), size.inodes()));
    if finished.exists() {
        return Ok(finished);
    }
    crate::place::private(patterns)?;
    forget_oldest(patterns)?;
    // Of this thread alone; one of that name is of an earlier process with the same number.
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let draft = patterns.join(format!(".draft-{}-{serial}", std::process::id()));
    let _ = fs::remove_file(&draft);
    File::create_new(&draft)?.set_len(size.bytes(purpose))?;
    format(&draft, size, purpose)?;
    fs::rename(&draft, &finished)?;
    Ok(finished)
}

/// Makes room for one more. Whoever is about to copy the one that goes makes it anew.
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

/// Copies what is not a hole.
fn copy_data(from: &File, to: &File) -> io::Result<()> {
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
            let length = usize::try_from(end - source).unwrap_or(usize::MAX);
            if copy_file_range(from, Some(&mut source), to, Some(&mut target), length)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        position = end;
    }
}
