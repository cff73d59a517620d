//! Walks the context and writes its archive on the way, without collecting it.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use coracle_sys::rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat, readlinkat};
use coracle_sys::rustix::io::Errno;
use tar::{Builder, EntryType, Header};

use super::ignore::{Ignored, Verdict};

/// Each level costs a descriptor, and no build has directories that deep.
const DEPTH_MAX: usize = 128;
/// Several times what a large repository has; a container engine unpacks each of them.
const ENTRIES_MAX: u64 = 1_000_000;
/// A container engine keeps the whole context on its disk. Sparse files count with their holes.
const BYTES_MAX: u64 = 16 << 30;
/// Most names of one directory, which are read as a whole to be sorted.
const NAMES_MAX: usize = 1_000_000;

/// Writes the archive of a directory.
pub fn pack(directory: BorrowedFd<'_>, ignored: &Ignored, into: impl Write) -> io::Result<()> {
    let mut walk = Walk { archive: Builder::new(into), ignored, path: Vec::new(), entries: 0, bytes: 0 };
    walk.directory(directory)?;
    walk.archive.into_inner()?.flush()
}

struct Walk<'a, W: Write> {
    archive: Builder<W>,
    ignored: &'a Ignored,
    /// The words of the current path.
    path: Vec<Vec<u8>>,
    entries: u64,
    bytes: u64,
}

impl<W: Write> Walk<'_, W> {
    fn directory(&mut self, directory: BorrowedFd<'_>) -> io::Result<()> {
        if self.path.len() > DEPTH_MAX {
            return Err(self.refuse(format!("is more than {DEPTH_MAX} directories deep")));
        }
        for (name, kind) in names(directory)? {
            self.path.push(name.to_bytes().to_vec());
            self.entry(directory, &name, kind)?;
            self.path.pop();
        }
        Ok(())
    }

    fn entry(&mut self, parent: BorrowedFd<'_>, name: &CStr, kind: FileType) -> io::Result<()> {
        let verdict = self.ignored.verdict(&self.words());
        let skipped =
            verdict == Verdict::LeftOut || (verdict != Verdict::Sent && kind != FileType::Directory);
        if skipped {
            return Ok(());
        }
        match kind {
            FileType::Directory => self.enter(parent, name, verdict),
            FileType::RegularFile => self.file(parent, name),
            FileType::Symlink => self.link(parent, name),
            // Opening one has an effect, and none of them means anything in an image.
            FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => Ok(()),
            FileType::Unknown => Err(self.refuse("is of a kind its filesystem does not report".to_owned())),
        }
    }

    fn enter(&mut self, parent: BorrowedFd<'_>, name: &CStr, verdict: Verdict) -> io::Result<()> {
        let Some(inner) = open(parent, name, OFlags::DIRECTORY)? else { return Ok(()) };
        if verdict == Verdict::Sent {
            let header = self.header(&inner, EntryType::Directory)?;
            self.append(header, io::empty())?;
        }
        self.directory(inner.as_fd())
    }

    fn file(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        // What was a file when it was listed may be a pipe by now; do not wait for it.
        let Some(file) = open(parent, name, OFlags::NONBLOCK)? else { return Ok(()) };
        let status = fstat(&file)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        let size = u64::try_from(status.st_size).unwrap_or(0);
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > BYTES_MAX {
            return Err(self.refuse(format!("brings the context to more than {BYTES_MAX} bytes")));
        }
        let mut header = self.header(&file, EntryType::Regular)?;
        header.set_size(size);
        self.append(header, Exactly { file: File::from(file), left: size })
    }

    fn link(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        let target = match readlinkat(parent, name, Vec::new()) {
            Ok(target) => target,
            Err(Errno::NOENT | Errno::INVAL) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut header = header(EntryType::Symlink);
        header.set_mode(0o777);
        self.count()?;
        let path = self.path.join(&b'/');
        let target = std::ffi::OsStr::from_bytes(target.to_bytes());
        self.archive.append_link(&mut header, as_path(&path), target)
    }

    /// Returns a header with the metadata of an open file.
    fn header(&self, of: &OwnedFd, kind: EntryType) -> io::Result<Header> {
        let status = fstat(of)?;
        let mut header = header(kind);
        header.set_mode(status.st_mode & 0o7777);
        header.set_mtime(u64::try_from(status.st_mtime).unwrap_or(0));
        Ok(header)
    }

    fn append(&mut self, mut header: Header, contents: impl Read) -> io::Result<()> {
        self.count()?;
        let path = self.path.join(&b'/');
        self.archive.append_data(&mut header, as_path(&path), contents)
    }

    fn count(&mut self) -> io::Result<()> {
        self.entries += 1;
        match self.entries > ENTRIES_MAX {
            true => Err(self.refuse(format!("brings the context to more than {ENTRIES_MAX} entries"))),
            false => Ok(()),
        }
    }

    fn words(&self) -> Vec<Vec<char>> {
        self.path.iter().map(|word| String::from_utf8_lossy(word).chars().collect()).collect()
    }

    fn refuse(&self, why: String) -> io::Error {
        let path = self.path.join(&b'/');
        io::Error::other(format!("`{}` in the context {why}", String::from_utf8_lossy(&path).escape_debug()))
    }
}

/// Returns an empty header owned by root: owners on the machine mean nothing in an image.
fn header(kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(0);
    header
}

/// A file of a size that the header has already announced.
struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read(&mut buffer[..most])?;
        if read == 0 && most > 0 {
            return Err(io::Error::other("a file in the context became shorter while it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// Opens what has this name now, never through a link; `None` if it is gone or of another kind.
fn open(parent: BorrowedFd<'_>, name: &CStr, more: OFlags) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
    match openat(parent, name, flags, Mode::empty()) {
        Ok(descriptor) => Ok(Some(descriptor)),
        // `NXIO` is a socket.
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the names in a directory, sorted: the same files make the same archive.
fn names(directory: BorrowedFd<'_>) -> io::Result<Vec<(std::ffi::CString, FileType)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
        if names.len() > NAMES_MAX {
            return Err(io::Error::other(format!("a directory has more than {NAMES_MAX} entries")));
        }
    }
    names.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(names)
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}
