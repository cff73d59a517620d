//! Disk space and inodes held back in a home, so that closing, `gc` and `purge` work on a full disk.
//!
//! A file with allocated blocks and a few empty files, in `ballast/`. A call that frees something on a full disk
//! truncates the one and unlinks the others, a portion at a time; if another program takes what a portion freed, the
//! call can retry with the next one. The write-ahead log of the database also has blocks allocated beyond its end,
//! which no other program can take.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use coracle_core::Home;
use coracle_core::headroom::{Disk, Inodes, Left, Shortage};
use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, renameat_with, statvfs};
use rustix::io::Errno;

const SPACE: &str = "space";
const NAME: &str = "name.";
/// Exists while less is free than the reserve and the event of that was written.
const LOW: &str = "low";
/// Exists while the disk is nearly full and backends were braced.
const BRACED: &str = "braced";

/// A close adds 50 KiB to the write-ahead log. It rewrites the record of a sandbox as a whole, with up to 512 KiB of
/// environment, which JSON may make several times as long.
const SPACE_BYTES: u64 = 4 << 20;
/// Each close makes one file, its lock. The rest is for simultaneous ones, and for what `gc` and `purge` lock.
const NAMES: usize = 32;
const PORTIONS: usize = 16;
/// The ballast is only made while this many times its size is free.
const PLENTY: u64 = 3;
/// The size the write-ahead log grows to before SQLite copies it back, doubled.
const LOG_BYTES: u64 = 1 << 20;

/// The ballast of one home.
#[derive(Debug, Clone)]
pub struct Ballast {
    home: Home,
}

impl Ballast {
    /// Returns the ballast of a home. Makes nothing until [`Disk::refill`].
    pub fn of(home: &Home) -> Self {
        Self { home: home.clone() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.ballast().join(name)
    }

    fn names(&self) -> impl Iterator<Item = PathBuf> {
        (0..NAMES).map(|number| self.path(&format!("{NAME}{number:02}")))
    }

    /// Shortens the file by one portion; `false` if it is empty.
    fn cut(&self) -> io::Result<bool> {
        let space = File::options().write(true).open(self.path(SPACE))?;
        let rest = space.metadata()?.len();
        space.set_len(rest.saturating_sub(SPACE_BYTES / PORTIONS as u64))?;
        Ok(rest > 0)
    }

    fn has_plenty(&self) -> bool {
        let enough = |inodes: Inodes| inodes.left >= PLENTY * NAMES as u64;
        self.left().is_some_and(|left| left.bytes >= PLENTY * SPACE_BYTES && left.inodes.is_none_or(enough))
    }

    /// Makes what is missing. The space comes last: its full length shows that everything is there.
    fn fill(&self) -> io::Result<()> {
        let directory = self.home.ballast();
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let alone = File::open(&directory)?;
        if alone.try_lock().is_err() {
            return Ok(());
        }
        for name in self.names() {
            match File::create_new(name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        // SQLite has no POSIX lock on this file; closing a file releases all of the process's locks on it.
        if let Ok(log) = File::options().write(true).open(self.home.database_log()) {
            let _ = fallocate(&log, FallocateFlags::KEEP_SIZE, 0, LOG_BYTES);
        }
        let space =
            File::options().write(true).create(true).truncate(false).mode(0o600).open(self.path(SPACE))?;
        match fallocate(&space, FallocateFlags::empty(), 0, SPACE_BYTES) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                fs::write(self.path(SPACE), vec![0; SPACE_BYTES as usize])
            }
            filled => Ok(filled?),
        }
    }
}

impl Disk for Ballast {
    fn left(&self) -> Option<Left> {
        let found = statvfs(self.home.path()).ok()?;
        // Filesystems without a bound report zero of zero.
        let bounded = |total: u64| (total > 0).then_some(total);
        Some(Left {
            bytes: found.f_bavail.saturating_mul(found.f_frsize),
            total_bytes: bounded(found.f_blocks)?.saturating_mul(found.f_frsize),
            inodes: bounded(found.f_files).map(|total| Inodes { left: found.f_favail, total }),
        })
    }

    fn held_back(&self) -> u64 {
        fs::metadata(self.path(SPACE)).map_or(0, |space| space.len())
    }

    fn give_way(&self) -> bool {
        let unlinked =
            self.names().filter(|name| fs::remove_file(name).is_ok()).take(NAMES / PORTIONS).count();
        self.cut().unwrap_or(false) || unlinked > 0
    }

    fn refill(&self) {
        if self.held_back() < SPACE_BYTES && self.has_plenty() {
            let _ = self.fill();
        }
    }

    fn note(&self, shortage: Shortage, is_there: bool) -> bool {
        let mark = self.path(match shortage {
            Shortage::Reserve => LOW,
            Shortage::Room => BRACED,
        });
        if mark.exists() == is_there {
            return false;
        }
        if !is_there {
            // The process whose rename succeeds reports the change. The file becomes ballast again if a name is free.
            for name in self.names() {
                match renameat_with(CWD, &mark, CWD, &name, RenameFlags::NOREPLACE) {
                    Err(Errno::EXIST) => {}
                    renamed => return renamed.is_ok(),
                }
            }
            return fs::remove_file(mark).is_ok();
        }
        // A ballast file becomes the mark, because there may be no inode for a new file.
        for name in self.names() {
            match renameat_with(CWD, &name, CWD, &mark, RenameFlags::NOREPLACE) {
                Err(Errno::NOENT) => {}
                renamed => return renamed.is_ok(),
            }
        }
        File::create_new(mark).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn filled() -> (tempfile::TempDir, Ballast) {
        let home = tempfile::tempdir().expect("a directory can be made");
        let ballast = Ballast::of(&Home::at(home.path()));
        ballast.refill();
        (home, ballast)
    }

    fn inodes(home: &Path) -> usize {
        fs::read_dir(Home::at(home).ballast()).expect("it is there").count()
    }

    #[test]
    fn what_is_held_back_takes_blocks_and_inodes_and_gives_both_back() {
        use std::os::unix::fs::MetadataExt;
        let (home, ballast) = filled();
        let blocks = || ballast.path(SPACE).metadata().expect("it is there").blocks() * 512;
        assert!(blocks() >= SPACE_BYTES);
        assert_eq!(inodes(home.path()), NAMES + 1);

        let portions = std::iter::repeat_with(|| ballast.give_way()).take(100).filter(|given| *given).count();

        assert_eq!(portions, PORTIONS);
        assert_eq!((blocks(), inodes(home.path())), (0, 1));
        ballast.refill();
        assert!(blocks() >= SPACE_BYTES);
        assert_eq!(inodes(home.path()), NAMES + 1);
    }

    #[test]
    fn exactly_one_of_many_notices_a_change() {
        let (_home, ballast) = filled();
        let noticed = |low| {
            let notice = || usize::from(ballast.note(Shortage::Reserve, low));
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(notice)).collect();
                threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum::<usize>()
            })
        };

        let counts = [noticed(true), noticed(true), noticed(false), noticed(false), noticed(true)];

        assert_eq!(counts, [1, 0, 1, 0, 1]);
        assert_eq!((noticed(false), ballast.names().filter(|name| name.exists()).count()), (1, NAMES));
        assert!(ballast.note(Shortage::Room, true), "each shortage is noted for itself");
    }

    #[test]
    fn a_home_that_is_not_there_has_none() {
        let ballast = Ballast::of(&Home::at("/nonexistent/home"));

        ballast.refill();

        assert!(!ballast.give_way());
        assert!(ballast.left().is_none());
    }
}
