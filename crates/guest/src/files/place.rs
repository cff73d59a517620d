//! Turns a path into a descriptor.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use coracle_sys::path::{self, Within};
use coracle_sys::rustix::fs::{
    AtFlags, FileType, Mode, OFlags, StatxFlags, fstat, fstatfs, mkdirat, open, readlink, readlinkat, statx,
};
use coracle_sys::rustix::io::Errno;
use coracle_wire::{Fault, FaultCode};

use super::refused;
use crate::weak::{self, Wall};

/// Filesystems whose files are not plain data: proc, sysfs, cgroup, cgroup2, devpts, mqueue.
const MAGIC: [i64; 6] = [0x9fa0, 0x6265_6572, 0x0027_e0eb, 0x6367_7270, 0x1cd1, 0x1980_0202];
/// Longest path the kernel takes.
pub const PATH_MAX: usize = 4096;
/// As many links as the kernel follows.
const LINKS_MAX: usize = 40;
const WORKSPACE: &str = "/workspace";

struct Roots {
    root: OwnedFd,
    workspace: OwnedFd,
}

static ROOTS: RwLock<Option<Arc<Roots>>> = RwLock::new(None);

/// The device number of a filesystem that file operations must not change; 0 if there is none.
static SEALED: AtomicU64 = AtomicU64::new(0);

/// Has file operations refuse changes on a directory's filesystem from now on, where it could not be mounted
/// read-only.
pub fn seal(directory: BorrowedFd<'_>) -> io::Result<()> {
    SEALED.store(fstat(directory)?.st_dev, Ordering::Relaxed);
    Ok(())
}

/// The mount with the guest's own directory, which no file operation reaches; 0 if there is none.
static OWN_MOUNT: AtomicU64 = AtomicU64::new(0);

/// Keeps file operations out of the guest's own directory, which is a mount. Compares the mount, because other
/// directories of the sandbox may be on the same filesystem.
pub fn keep_out_of(directory: BorrowedFd<'_>) -> io::Result<()> {
    OWN_MOUNT.store(mount_of(directory)?, Ordering::Relaxed);
    Ok(())
}

fn mount_of(found: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(statx(found, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id)
}

fn check_own(found: BorrowedFd<'_>, path: &[u8]) -> Result<(), Fault> {
    let own = OWN_MOUNT.load(Ordering::Relaxed);
    match own != 0 && mount_of(found).map_err(refused("look at", path))? == own {
        true => Err(refused("open", path)(Errno::ACCESS)),
        false => Ok(()),
    }
}

pub fn check_sealed(parent: &OwnedFd, path: &[u8], parents: Parents) -> Result<(), Fault> {
    let attempted = match parents {
        Parents::Make => "write",
        Parents::Expect => "delete",
    };
    let sealed = SEALED.load(Ordering::Relaxed);
    if sealed != 0 && fstat(parent).map_err(refused("look at", path))?.st_dev == sealed {
        return Err(refused(attempted, path)(Errno::ROFS));
    }
    Ok(())
}

/// Opens the directories that paths start from, once the sandbox's root is the root.
pub fn open_roots() -> io::Result<()> {
    let directory =
        |path: &str| open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let roots = Roots { root: directory("/")?, workspace: directory(WORKSPACE)? };
    *ROOTS.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(roots));
    Ok(())
}

/// Opens them again, because the root may have been replaced. If that fails they stay as they are.
pub fn open_roots_again() {
    // Otherwise only file operations would still use the old root, keep it alive and write to it.
    let _ = open_roots();
}

/// Makes a directory and its parents, for the guest's own use. If that fails, the operation that needs it reports
/// it.
pub fn make_own_directory(path: &[u8]) {
    drop(make_parents(path));
}

/// A name in a directory.
#[derive(Debug)]
pub struct Entry {
    pub parent: OwnedFd,
    pub name: CString,
    /// The whole path, absolute.
    pub path: Vec<u8>,
}

/// What to do about missing parent directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parents {
    Expect,
    Make,
}

/// What to do about a link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    Follow,
    Keep,
}

impl Links {
    fn flags(self) -> OFlags {
        match self {
            Self::Follow => OFlags::empty(),
            Self::Keep => OFlags::NOFOLLOW,
        }
    }
}

/// Finds what a path names, without opening it. Follows links within bounds, the last one unless `flags` forbid it.
pub fn find(path: &[u8], flags: OFlags) -> Result<OwnedFd, Fault> {
    if weak::off(Wall::Resolution) {
        return weak::open_by_name(&absolute(path), flags | OFlags::PATH).map_err(refused("open", path));
    }
    let roots = roots(path)?;
    let (start, within) = match path.starts_with(b"/") {
        true => (&roots.root, Within::Root),
        false => (&roots.workspace, Within::Beneath),
    };
    let found =
        path::open(start.as_fd(), path, within, flags | OFlags::PATH).map_err(refused("open", path))?;
    check_filesystem(found.as_fd(), path)?;
    check_own(found.as_fd(), path)?;
    Ok(found)
}

/// Finds what a path names in a tree. Follows links like [`find`] up to the tree's top, and none from there on,
/// because commands may replace directories of the tree with links at any time.
pub fn find_in_tree(path: &[u8], top: Option<u32>, flags: OFlags) -> Result<OwnedFd, Fault> {
    let (top, below) = match top.and_then(|top| path.split_at_checked(top as usize)) {
        Some((top, below)) if !weak::off(Wall::Resolution) => (top, below),
        _ => return find(path, flags),
    };
    let begin = below.iter().position(|byte| *byte != b'/').unwrap_or(below.len());
    if begin == below.len() {
        return find(path, flags);
    }
    let top = match (top, begin) {
        (b"", 0) => b".".as_slice(),
        (b"", _) => b"/",
        (top, _) => top,
    };
    let top = find(top, OFlags::DIRECTORY)?;
    let found = path::open(top.as_fd(), &below[begin..], Within::Tree, flags | OFlags::PATH)
        .map_err(refused("open", path))?;
    check_filesystem(found.as_fd(), path)?;
    check_own(found.as_fd(), path)?;
    Ok(found)
}

/// Opens a plain file for reading, in a tree if it has a top.
pub fn open_plain(path: &[u8], links: Links, top: Option<u32>) -> Result<File, Fault> {
    let found = find_in_tree(path, top, links.flags())?;
    let kind = FileType::from_raw_mode(fstat(&found).map_err(refused("stat", path))?.st_mode);
    match kind {
        FileType::RegularFile => {}
        FileType::Directory => return Err(refused("read", path)(Errno::ISDIR)),
        FileType::Symlink => return Err(refused("read", path)(Errno::LOOP)),
        // Opening a pipe or a device could block the guest or have an effect.
        _ => return Err(refused("read", path)(Errno::INVAL)),
    }
    path::reopen(found.as_fd(), OFlags::RDONLY | OFlags::NONBLOCK)
        .map(File::from)
        .map_err(refused("open", path))
}

/// Finds the directory that holds the last name of a path.
pub fn entry(path: &[u8], parents: Parents) -> Result<Entry, Fault> {
    entry_in_tree(path, None, parents)
}

/// Finds the directory that holds the last name of a path, and follows no link below the tree's top. Makes no
/// directories below the top: they exist, or a command removed them.
pub fn entry_in_tree(path: &[u8], top: Option<u32>, parents: Parents) -> Result<Entry, Fault> {
    let invalid = || Fault {
        code: FaultCode::Invalid,
        message: format!("`{}` does not name a file", String::from_utf8_lossy(path)),
        errno: None,
    };
    let trimmed = path.strip_suffix(b"/").unwrap_or(path);
    let (directory, name) = match trimmed.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&trimmed[..=slash], &trimmed[slash + 1..]),
        None => (b".".as_slice(), trimmed),
    };
    if matches!(name, b"" | b"." | b"..") {
        return Err(invalid());
    }
    let top = top.filter(|top| (*top as usize) < directory.len());
    let parent = match find_in_tree(directory, top, OFlags::DIRECTORY) {
        Err(fault)
            if parents == Parents::Make
                && top.is_none()
                && fault.errno == Some(Errno::NOENT.raw_os_error()) =>
        {
            make_parents(directory)?
        }
        found => found?,
    };
    check_sealed(&parent, path, parents)?;
    let name = CString::new(name).map_err(|_| invalid())?;
    Ok(Entry { parent, name, path: absolute(trimmed) })
}

/// Finds the place a file is written to when links at the end of its path are followed: that of an existing file,
/// or the one a link leads to. Looks at each link in its directory, and starts there anew under the same rule as
/// for the path itself.
pub fn entry_behind_links(path: &[u8], parents: Parents) -> Result<Entry, Fault> {
    let mut entry = entry(path, parents)?;
    for _ in 0..LINKS_MAX {
        let target = match readlinkat(&entry.parent, &entry.name, Vec::new()) {
            Ok(target) => target.into_bytes(),
            // Not a link, or missing.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(entry),
            Err(error) => return Err(refused("follow", path)(error)),
        };
        let next = match (target.starts_with(b"/"), path.starts_with(b"/")) {
            (true, true) => target,
            (true, false) => return Err(refused("write", path)(Errno::XDEV)),
            (false, _) => [seen_from_start(&entry.parent, path)?.as_slice(), b"/", &target].concat(),
        };
        entry = self::entry(&next, parents)?;
    }
    Err(refused("write", path)(Errno::LOOP))
}

/// Returns where a directory on the way of `path` is now: absolute, or relative to the workspace, as `path` is.
fn seen_from_start(directory: &OwnedFd, path: &[u8]) -> Result<Vec<u8>, Fault> {
    let place = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let place = readlink(place, Vec::new()).map_err(refused("follow", path))?.into_bytes();
    if path.starts_with(b"/") {
        return Ok(place);
    }
    match place.strip_prefix(WORKSPACE.as_bytes()) {
        Some(b"") => Ok(b".".to_vec()),
        Some([b'/', below @ ..]) => Ok(below.to_vec()),
        // A command moved it out of the workspace after it was opened.
        _ => Err(refused("follow", path)(Errno::XDEV)),
    }
}

/// Makes the directories of a path one by one, each from its parent.
fn make_parents(directory: &[u8]) -> Result<OwnedFd, Fault> {
    let mut sofar: Vec<u8> = if directory.starts_with(b"/") { b"/".to_vec() } else { b".".to_vec() };
    let mut current = find(&sofar, OFlags::DIRECTORY)?;
    for name in directory.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")) {
        sofar.push(b'/');
        sofar.extend_from_slice(name);
        if name != b".." {
            match mkdirat(&current, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(refused("make", &sofar)(error)),
            }
        }
        current = find(&sofar, OFlags::DIRECTORY)?;
    }
    Ok(current)
}

/// Returns the directories that paths start from, if this path is valid.
fn roots(path: &[u8]) -> Result<Arc<Roots>, Fault> {
    if path.is_empty() || path.len() >= PATH_MAX || path.contains(&0) {
        let message = format!("a path has 1 to {} bytes and no NUL", PATH_MAX - 1);
        return Err(Fault { code: FaultCode::Invalid, message, errno: None });
    }
    if leaves(path) {
        let message = format!("`{}` leads out of the workspace", String::from_utf8_lossy(path));
        return Err(Fault { code: FaultCode::File, message, errno: Some(Errno::XDEV.raw_os_error()) });
    }
    let roots = ROOTS.read().unwrap_or_else(PoisonError::into_inner).clone();
    roots.ok_or_else(|| refused("open", path)(Errno::NODEV))
}

/// Tells whether a relative path leads out of the workspace by its words alone. The kernel refuses paths that lead
/// out by links, but may report first that something on the way is missing.
fn leaves(path: &[u8]) -> bool {
    let mut depth = 0i32;
    !path.starts_with(b"/")
        && path.split(|byte| *byte == b'/').any(|name| {
            depth += match name {
                b"" | b"." => 0,
                b".." => -1,
                _ => 1,
            };
            depth < 0
        })
}

pub fn check_filesystem(found: BorrowedFd<'_>, path: &[u8]) -> Result<(), Fault> {
    let kind = fstatfs(found).map_err(refused("look at", path))?.f_type as i64;
    match MAGIC.contains(&kind) {
        true => Err(refused("open", path)(Errno::ACCESS)),
        false => Ok(()),
    }
}

/// Returns the path as seen from the root.
pub fn absolute(path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") {
        return path.to_vec();
    }
    let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    names.fold(WORKSPACE.as_bytes().to_vec(), |sofar, name| [sofar.as_slice(), b"/", name].concat())
}
