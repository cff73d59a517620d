//! The home of an instance: every path coracle has in it. Other files and directories there are not coracle's.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The directory with all state of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    path: PathBuf,
}

/// Makes a method for each path, and the list of their names.
macro_rules! entries {
    ($($(#[$doc:meta])+ $method:ident = $name:literal;)+) => {
        impl Home {
            /// The names of everything coracle makes in a home, in the order a purge removes them. A purge that is
            /// cut short needs the database to know what is left, and the instance's id to find it on the machine.
            pub const OWN: &[&str] = &[$($name),+];

            $($(#[$doc])+ pub fn $method(&self) -> PathBuf {
                self.path.join($name)
            })+
        }
    };
}

entries! {
    /// The native backend's: a directory for each sandbox.
    sandboxes = "sandboxes";
    /// The native backend's: the guest's program.
    guest = "guest";
    /// The image store's: layers and what images are made of.
    images = "images";
    /// The native backend's: an empty filesystem of each size, of which disks are copies.
    disks = "disks";
    /// The native backend's: volumes.
    volumes = "volumes";
    /// The native backend's: files of sandboxes kept as images.
    snapshots = "snapshots";
    /// Hosted repositories, a directory for each.
    repos = "repos";
    /// The container engine backends': a directory for each container engine, with one for each sandbox.
    engines = "engines";
    /// The engine's: a directory for each keeper, with its lock, its socket and the denials of its sandbox.
    keepers = "keepers";
    /// The engine's: kept logs of closed sandboxes.
    logs = "logs";
    /// The package cache's: an archive for each lockfile, by tenant.
    packages = "packages";
    /// The store's: work locks, a file for each sandbox that a process works on.
    locks = "locks";
    /// The command line's: its modification time is that of the last sweep.
    swept = "swept";
    /// The command line's: its modification time is that of the last search for unused layers.
    collected = "collected";
    /// The command line's: notices that people have seen once and need not see again.
    said = "said";
    /// The spare pool's socket, by its old name: an older coracle may serve the same home.
    spares_socket = "stock.sock";
    /// The spare pool's lock, by its old name; held by the process that keeps the spares.
    spares_lock = "stock.lock";
    /// The store's lock; held by the process that makes or migrates the database.
    migration_lock = "migrate.lock";
    /// The daemon's default socket.
    daemon_socket = "coracle.sock";
    /// The daemon's lock; held by the process that serves the home.
    daemon_lock = "serve.lock";
    /// The daemon's: which client asked for what.
    audit = "audit.jsonl";
    /// The disk space and inodes held back for removals.
    ballast = "ballast";
    /// The engine's: which tenants brought an image.
    claims = "claims";
    /// The store's: the directory in which it makes a new database.
    making = "making";
    /// The store's: the instance's id while it is being written.
    instance_draft = "instance.draft";
    /// The database's write-ahead log, of no use without it.
    database_log = "coracle.db-wal";
    /// SQLite's index of that log.
    database_index = "coracle.db-shm";
    /// The store's: how far the database has come.
    database_mark = "coracle.mark";
    /// The store's: records, events, tokens, answers.
    database = "coracle.db";
    /// The store's: the instance's id.
    instance = "instance";
}

impl Home {
    /// Takes a directory as a home; reads and makes nothing.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The person's settings. Coracle reads them and never makes or removes them.
    pub fn settings(&self) -> PathBuf {
        self.path.join("config.toml")
    }
}

/// Returns a short path to a socket in an open directory; only the last part of `socket` counts.
///
/// The kernel limits a socket's path to 107 bytes, and the home's may be longer. So the path goes through the
/// directory's descriptor.
pub fn short_path(directory: &impl AsRawFd, socket: impl AsRef<Path>) -> PathBuf {
    let directory = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    directory.join(socket.as_ref().file_name().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_parts_share_a_name_and_the_settings_are_not_ours() {
        let home = Home::at("/h");
        let names: BTreeSet<_> = Home::OWN.iter().map(|name| home.path().join(name)).collect();

        assert_eq!(names.len(), Home::OWN.len());
        assert!(!names.contains(&home.settings()));
        assert!(names.iter().all(|path| path.parent() == Some(home.path())), "each is directly in the home");
    }

    /// Older versions of coracle use the same homes.
    #[test]
    fn names_on_disk_stay() {
        let expected = "sandboxes guest images disks volumes snapshots repos engines keepers logs packages locks swept collected said \
            stock.sock stock.lock migrate.lock coracle.sock serve.lock audit.jsonl ballast claims making instance.draft \
            coracle.db-wal coracle.db-shm coracle.mark coracle.db instance";

        assert_eq!(Home::OWN, expected.split_whitespace().collect::<Vec<_>>());
        assert_eq!(Home::at("/h").settings(), Path::new("/h/config.toml"));
    }

    #[test]
    fn a_purge_removes_the_database_last_but_one_and_the_id_last() {
        let home = Home::at("/h");
        let last: Vec<_> =
            Home::OWN[Home::OWN.len() - 2..].iter().map(|name| home.path().join(name)).collect();

        assert_eq!(last, [home.database(), home.instance()]);
    }

    #[test]
    fn a_short_path_leads_through_the_descriptor() {
        let directory = std::io::stdin();

        assert_eq!(short_path(&directory, "/a/b/guest.sock"), Path::new("/proc/self/fd/0/guest.sock"));
    }
}
