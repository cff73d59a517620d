//! A minimal Debian with python3 and git, made of Debian's own packages.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

use crate::binary;

/// Returns its archive. It is made once for all suites and runs in this checkout: that takes most of a minute.
pub fn archive() -> PathBuf {
    let directory = binary::target().join("tmp");
    std::fs::create_dir_all(&directory).expect("the target directory can be written");
    let archive = directory.join("debian-with-python-and-git.tar");
    let lock = File::create(directory.join("debian.lock")).expect("the target directory can be written");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock can be had");
    if !archive.exists() {
        let draft = directory.join("debian.draft.tar");
        let made = Command::new("mmdebstrap")
            .args(["--quiet", "--variant=apt", "--include=python3-minimal,git"])
            .args(["--aptopt=Acquire::Languages \"none\"", "--dpkgopt=path-exclude=/usr/share/doc/*"])
            .args(["--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/man/*"])
            .arg("bookworm")
            .arg(&draft)
            .output()
            .expect("Debian's package `mmdebstrap` is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        std::fs::rename(draft, &archive).expect("a file can be renamed");
    }
    archive
}
