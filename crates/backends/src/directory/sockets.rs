//! Unix sockets in a directory that is to be mounted. A path to one is all it takes to reach the program that listens there: the
//! kernel finds them by file, whatever network namespace either side is in and however the directory is mounted.
//!
//! Only those somebody listens on count: a file that a process left behind leads nowhere, for ever.
//!
//! It is looked once, before the sandbox is made: a socket that somebody binds there later is reached. Mounts as `overlay`
//! have files of their own in the stead of the directory's, and nobody listens on those.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use coracle_core::{Error, Kind, Result};
use coracle_sys::path::{self, Within};
use coracle_sys::rustix::fs::{AtFlags, Dir, FileType, OFlags, statat};

use crate::weak::{self, Wall};

/// How many entries are looked at, those near the top first. More would make every sandbox with a large repository wait;
/// sockets are seldom far down.
const ENTRIES_MAX: usize = 50_000;

/// Refuses a directory in which there is a socket.
pub fn expect_none(directory: BorrowedFd<'_>, shown: &Path) -> Result<()> {
    if weak::off(Wall::Sockets) {
        return Ok(());
    }
    let found = find(directory).map_err(|error| {
        Error::new(Kind::Invalid, format!("could not look for sockets in `{}`", shown.display()))
            .detail("field", "mounts.source")
            .caused_by(error)
    })?;
    match found {
        None => Ok(()),
        Some(socket) => Err(Error::new(
            Kind::Invalid,
            format!(
                "could not mount `{}`: commands could reach the program that listens on the socket `{}` in it",
                shown.display(),
                socket.display()
            ),
        )
        .hint("remove it, mount another directory, or allow it with `--allow-sockets` (`allow_sockets`)")
        .detail("field", "mounts.source")
        .detail("socket", socket.display().to_string())),
    }
}

/// Returns a socket below the directory, by its path from there.
fn find(directory: BorrowedFd<'_>) -> io::Result<Option<PathBuf>> {
    let mut ahead = VecDeque::from([PathBuf::from(".")]);
    let mut seen = 0;
    while let Some(place) = ahead.pop_front() {
        // Gone since, or not to be entered: what we cannot see commands without rights cannot either.
        let Ok(opened) = enter(directory, &place) else { continue };
        for entry in opened {
            let Ok(entry) = entry else { break };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            seen += 1;
            if seen > ENTRIES_MAX {
                return Ok(None);
            }
            let below = || place.join(OsString::from_vec(name.to_vec()));
            let kind = match entry.file_type() {
                // Some filesystems do not say it there.
                FileType::Unknown => kind_of(directory, &below()),
                kind => kind,
            };
            match kind {
                FileType::Socket if is_listened_on(directory, &below()) => return Ok(Some(below())),
                FileType::Directory => ahead.push_back(below()),
                _ => {}
            }
        }
    }
    Ok(None)
}

fn kind_of(directory: BorrowedFd<'_>, place: &Path) -> FileType {
    let stat = statat(directory, place, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

/// Asks the kernel whether a socket is bound there. Connecting a datagram socket sends nothing: one of another type is
/// refused for its type, and its owner does not notice.
fn is_listened_on(directory: BorrowedFd<'_>, place: &Path) -> bool {
    let connect = || {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let socket = path::open(directory, place.as_os_str().as_bytes(), Within::Beneath, flags)?;
        UnixDatagram::unbound()?.connect(format!("/proc/self/fd/{}", socket.as_raw_fd()))
    };
    // What we may not even try is taken for the worse.
    !connect().is_err_and(|error| {
        matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
    })
}

fn enter(directory: BorrowedFd<'_>, place: &Path) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = path::open(directory, place.as_os_str().as_bytes(), Within::Beneath, flags)?;
    Ok(Dir::read_from(opened.as_fd())?)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_somebody_listens_on_is_found_however_deep_and_nothing_else() {
        let place = tempfile::tempdir().expect("a directory can be made");
        fs::create_dir_all(place.path().join("a/b")).expect("it is ours");
        fs::write(place.path().join("a/plain"), "").expect("it is ours");
        std::os::unix::fs::symlink("/run", place.path().join("link")).expect("it is ours");
        let directory = File::open(place.path()).expect("it is ours");
        assert_eq!(find(directory.as_fd()).expect("it can be looked at"), None);

        // Nobody listens there any more.
        drop(UnixListener::bind(place.path().join("a/left")).expect("it is ours"));
        assert_eq!(find(directory.as_fd()).expect("it can be looked at"), None);

        let listener = UnixListener::bind(place.path().join("a/b/s")).expect("it is ours");

        let found = find(directory.as_fd()).expect("it can be looked at");
        assert_eq!(found, Some(PathBuf::from("./a/b/s")));
        let refused = expect_none(directory.as_fd(), place.path()).expect_err("it is refused");
        assert_eq!(refused.kind, Kind::Invalid);
        listener.set_nonblocking(true).expect("it is ours");
        assert!(listener.accept().is_err(), "the listener was bothered");
    }
}
