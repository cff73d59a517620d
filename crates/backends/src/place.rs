//! Places in the home: our own directories, and sockets in them.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use coracle_core::home::short_path;
use coracle_sys::rustix::fs::{AtFlags, statat};

use crate::weak::{self, Wall};

/// Connects to a socket in a directory.
pub fn connect(directory: &Path, socket: &str) -> io::Result<UnixStream> {
    let directory = File::open(directory)?;
    match UnixStream::connect(short_path(&directory, socket)) {
        // The path leads through `/proc`. If that is not mounted, the error says nothing about the socket.
        Err(error) if error.kind() == io::ErrorKind::NotFound && has(&directory, socket) => {
            Err(io::Error::other("could not go through /proc/self/fd: is /proc mounted?"))
        }
        stream => stream,
    }
}

fn has(directory: &File, name: &str) -> bool {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Tells whether a failed connection proves that no process listens: the socket is missing, or the kernel refused.
/// A lack of descriptors, memory or rights says something about us and nothing about the guest.
pub fn proves_death(error: &io::Error) -> bool {
    let proof = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
    proof || weak::off(Wall::Proof)
}

/// Makes a directory no other user may enter; only we may write what is executed from it.
pub fn private(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use coracle_sys::rustix::io::Errno;

    use super::*;

    #[test]
    fn only_a_missing_socket_and_a_refusal_prove_death() {
        let directory = tempfile::tempdir().expect("a directory");
        let failure = || connect(directory.path(), "guest").map(drop).expect_err("no process listens");

        assert!(proves_death(&failure()), "there is no socket");
        drop(UnixListener::bind(directory.path().join("guest")).expect("it can be bound"));
        assert!(proves_death(&failure()), "no process listens any more");
        for errno in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::AGAIN,
            Errno::NOMEM,
            Errno::ACCESS,
            Errno::PERM,
            Errno::TIMEDOUT,
        ] {
            assert!(!proves_death(&errno.into()), "{errno}");
        }
    }
}
