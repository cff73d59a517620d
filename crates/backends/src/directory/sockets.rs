//! Finds unix sockets in a directory to be mounted. A path to one is enough to reach the program that listens on
//! it: the kernel finds sockets by file, whatever network namespace either side is in and however the directory is
//! mounted.
//!
//! Only sockets that a program listens on count: a socket file that a dead process left behind can never be
//! reached.
//!
//! Searches the directory once, before the sandbox is made; commands can reach a socket bound later. A mount as
//! `overlay` has its own files in place of the directory's, and no program listens on those.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use coracle_core::{Error, Kind, Result};
use coracle_sys::path::{self, Within};
use coracle_sys::rustix::fs::{AtFlags, Dir, FileType, OFlags, statat};
use coracle_sys::rustix::process::geteuid;

use crate::weak::{self, Wall};

/// Most entries to search. A repository with its dependencies has some hundred thousand; a million take about a
/// second when the kernel has them in memory. Refuses a directory with more: its owner may hide a socket behind
/// them.
const ENTRIES_MAX: usize = 1_000_000;
/// Most bytes of paths of directories that wait to be searched: deep ones must not take all memory.
const WAITING_MAX: usize = 64 << 20;

const ADVICE: &str = "mount another directory, or allow sockets with `allow_sockets`";

/// Refuses a directory that contains a socket, or may contain one.
pub fn expect_none(directory: BorrowedFd<'_>, shown: &Path) -> Result<()> {
    if weak::off(Wall::Sockets) {
        return Ok(());
    }
    let refuse = |kind, why: &str| {
        Error::new(kind, format!("could not mount `{}`: {why}", shown.display()))
            .detail("field", "mounts.source")
    };
    match find(directory, ENTRIES_MAX) {
        Ok(Found::Nothing) => Ok(()),
        Ok(Found::Socket(socket)) => {
            let why = format!(
                "commands could reach the program that listens on the socket `{}` in it",
                socket.display()
            );
            Err(refuse(Kind::Invalid, &why)
                .hint(format!("remove it, {ADVICE}"))
                .detail("socket", socket.display().to_string()))
        }
        Ok(Found::TooMuch) => {
            let why = format!("it has more than {ENTRIES_MAX} entries, too many to search for sockets");
            Err(refuse(Kind::LimitExceeded, &why).hint(ADVICE))
        }
        Err(error) => {
            Err(refuse(Kind::Invalid, "it could not be searched for sockets").hint(ADVICE).caused_by(error))
        }
    }
}

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    /// Its path from the directory.
    Socket(PathBuf),
    /// There are more entries than are searched.
    TooMuch,
}

/// Searches a directory with at most `most` entries for a socket.
fn find(directory: BorrowedFd<'_>, most: usize) -> io::Result<Found> {
    let mut ahead = vec![PathBuf::from(".")];
    let (mut seen, mut waiting) = (0, 1);
    while let Some(place) = ahead.pop() {
        waiting -= place.as_os_str().len();
        let Some(opened) = visible(enter(directory, &place))? else { continue };
        for entry in opened {
            let Some(entry) = visible(entry.map_err(io::Error::from))? else { break };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            seen += 1;
            if seen > most || waiting > WAITING_MAX {
                return Ok(Found::TooMuch);
            }
            let below = || place.join(OsString::from_vec(name.to_vec()));
            let kind = match entry.file_type() {
                // Some filesystems do not report the kind there.
                FileType::Unknown => visible(kind_of(directory, &below()))?,
                kind => Some(kind),
            };
            match kind {
                Some(FileType::Socket) if is_listened_on(directory, &below()) => {
                    return Ok(Found::Socket(below()));
                }
                Some(FileType::Directory) => {
                    ahead.push(below());
                    waiting += place.as_os_str().len() + 1 + name.len();
                }
                _ => {}
            }
        }
    }
    Ok(Found::Nothing)
}

/// Returns `None` for an entry that is gone, or that we may not enter: what its user cannot see, commands cannot
/// either. Root sees everything, so every other failure is a failed look, and a socket may be there.
fn visible<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Ok(seen) => Ok(Some(seen)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            io::ErrorKind::PermissionDenied if !geteuid().is_root() => Ok(None),
            _ => Err(error),
        },
    }
}

fn kind_of(directory: BorrowedFd<'_>, place: &Path) -> io::Result<FileType> {
    let stat = statat(directory, place, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// Asks the kernel whether a program is bound to a socket. Connecting a datagram socket sends nothing: the kernel
/// refuses one of another type because of its type, and its owner does not notice.
fn is_listened_on(directory: BorrowedFd<'_>, place: &Path) -> bool {
    let connect = || {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let socket = path::open(directory, place.as_os_str().as_bytes(), Within::Beneath, flags)?;
        UnixDatagram::unbound()?.connect(format!("/proc/self/fd/{}", socket.as_raw_fd()))
    };
    // If we may not even try, assume the worse case.
    !connect().is_err_and(|error| {
        matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
    })
}

fn enter(directory: BorrowedFd<'_>, place: &Path) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = path::open(directory, place.as_os_str().as_bytes(), Within::Beneath, flags)?;
    Ok(Dir::new(opened)?)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;

    use coracle_sys::rustix::fs::{Mode, mkdirat, openat};

    use super::*;

    #[test]
    fn a_socket_with_a_listener_is_found_however_deep_and_nothing_else() {
        let place = tempfile::tempdir().expect("a directory can be made");
        fs::create_dir_all(place.path().join("a/b")).expect("it is ours");
        fs::write(place.path().join("a/plain"), "").expect("it is ours");
        std::os::unix::fs::symlink("/run", place.path().join("link")).expect("it is ours");
        let directory = File::open(place.path()).expect("it is ours");
        assert_eq!(find(directory.as_fd(), 100).expect("it can be looked at"), Found::Nothing);

        // No program listens there any more.
        drop(UnixListener::bind(place.path().join("a/left")).expect("it is ours"));
        assert_eq!(find(directory.as_fd(), 100).expect("it can be looked at"), Found::Nothing);

        let listener = UnixListener::bind(place.path().join("a/b/s")).expect("it is ours");

        let found = find(directory.as_fd(), 100).expect("it can be looked at");
        assert_eq!(found, Found::Socket(PathBuf::from("./a/b/s")));
        let refused = expect_none(directory.as_fd(), place.path()).expect_err("it is refused");
        assert_eq!(refused.kind, Kind::Invalid);
        listener.set_nonblocking(true).expect("it is ours");
        assert!(listener.accept().is_err(), "the listener was bothered");
    }

    #[test]
    fn a_directory_with_more_than_is_searched_is_not_taken_for_one_without_sockets() {
        let place = tempfile::tempdir().expect("a directory can be made");
        fs::create_dir(place.path().join("a")).expect("it is ours");
        for name in ["b", "c"] {
            fs::write(place.path().join(name), "").expect("it is ours");
        }
        let directory = File::open(place.path()).expect("it is ours");

        assert_eq!(find(directory.as_fd(), 3).expect("it can be looked at"), Found::Nothing);
        assert_eq!(find(directory.as_fd(), 2).expect("it can be looked at"), Found::TooMuch);
    }

    #[test]
    fn a_directory_that_cannot_be_entered_for_another_reason_than_rights_is_refused() {
        let place = tempfile::tempdir().expect("a directory can be made");
        let directory = File::open(place.path()).expect("it is ours");
        // Deeper than the longest path.
        let mut at = directory.try_clone().expect("it is ours").into();
        for _ in 0..20 {
            let name = "d".repeat(250);
            mkdirat(&at, &name, Mode::RWXU).expect("it is ours");
            at = openat(&at, &name, OFlags::RDONLY, Mode::empty()).expect("it is ours");
        }

        let refused = expect_none(directory.as_fd(), place.path()).expect_err("it is refused");

        assert_eq!(refused.kind, Kind::Invalid);
        assert!(refused.hint.is_some_and(|hint| hint.contains("`allow_sockets`")));
    }
}
