//! A small filesystem of its own for one test, to be filled to the last byte and inode.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::binary::succeed;

/// What it holds: as much as the smallest disk a home is promised to survive on.
const MEGABYTES: u64 = 60;
const INODES: u64 = 2000;

/// The kinds there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ext4,
    Tmpfs,
}

/// A filesystem that is mounted until this is dropped.
#[derive(Debug)]
pub struct Filesystem {
    place: TempDir,
}

impl Filesystem {
    pub const KINDS: [Kind; 2] = [Kind::Ext4, Kind::Tmpfs];

    /// Mounts an empty one.
    pub fn new(kind: Kind) -> Self {
        let place =
            tempfile::Builder::new().prefix("coracle-disk-").tempdir().expect("a directory can be made");
        let (root, image) = (place.path().join("root"), place.path().join("image"));
        fs::create_dir(&root).expect("a directory can be made");
        let mut mount = Command::new("mount");
        match kind {
            Kind::Tmpfs => {
                let options = format!("size={MEGABYTES}m,nr_inodes={INODES},mode=700");
                mount.args(["-t", "tmpfs", "-o", &options, "none"]).arg(&root);
            }
            Kind::Ext4 => {
                let file = File::create(&image).and_then(|file| file.set_len(MEGABYTES << 20));
                file.expect("a file can be made");
                let mut format = Command::new("mke2fs");
                let words = ["-q", "-F", "-t", "ext4", "-m", "0", "-N", &INODES.to_string()];
                succeed(format.args(words).arg(&image)).expect("it can be formatted");
                mount.args(["-o", "loop"]).arg(&image).arg(&root);
            }
        }
        succeed(&mut mount).expect("root may mount");
        Self { place }
    }

    /// Returns where it is mounted.
    pub fn root(&self) -> PathBuf {
        self.place.path().join("root")
    }

    /// Takes every inode and every byte that is left.
    #[track_caller]
    pub fn fill(&self) {
        let fillers = self.root().join("fill");
        let _ = fs::create_dir(&fillers);
        let mut number = fs::read_dir(&fillers).map_or(0, Iterator::count);
        while File::create_new(fillers.join(number.to_string())).is_ok() {
            number += 1;
        }
        self.write_until_full(&fillers.join("0"));
        let left = File::create_new(fillers.join("more")).err().and_then(|error| error.raw_os_error());
        assert_eq!(left, Some(28), "there are inodes left");
    }

    fn write_until_full(&self, path: &Path) {
        let mut file = File::options().append(true).open(path).expect("a filler is there");
        let mut piece = vec![b'x'; 1 << 20];
        while !piece.is_empty() {
            // Syncing settles what the filesystem has only set aside.
            if file.write_all(&piece).and_then(|()| file.sync_all()).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
    }

    /// Gives back so many bytes of what was filled, and some inodes.
    pub fn spare(&self, bytes: u64, inodes: usize) {
        let fillers = self.root().join("fill");
        let file = File::options().write(true).open(fillers.join("0")).expect("a filler is there");
        let length = file.metadata().expect("it is there").len();
        file.set_len(length.saturating_sub(bytes)).expect("it can be cut");
        let entries = fs::read_dir(&fillers).expect("it is there").flatten();
        let others = entries.filter(|entry| entry.file_name() != "0");
        others.take(inodes).for_each(|entry| fs::remove_file(entry.path()).expect("it can be removed"));
    }

    /// Gives everything back that was filled.
    pub fn clear(&self) {
        let _ = fs::remove_dir_all(self.root().join("fill"));
    }
}

impl Drop for Filesystem {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.root(), rustix::mount::UnmountFlags::DETACH);
    }
}
