//! The cgroups that the benchmark has a container engine use. It removes what is in them, but not the cgroups themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const TREES: &str = "/sys/fs/cgroup";
/// Killed processes leave their groups a moment later, and nothing tells when.
const LEAVE_MAX: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Removes the groups of this name from all trees, and those below them. What stays in use stays.
pub fn remove(name: &str) {
    let trees = fs::read_dir(TREES).into_iter().flatten().flatten().map(|tree| tree.path());
    let groups: Vec<PathBuf> = trees.chain([PathBuf::from(TREES)]).map(|tree| tree.join(name)).collect();
    let started = Instant::now();
    while groups.iter().any(|group| group.exists()) && started.elapsed() < LEAVE_MAX {
        groups.iter().for_each(|group| remove_tree(group));
        std::thread::sleep(LOOK_EVERY);
    }
}

fn remove_tree(group: &Path) {
    let Ok(entries) = fs::read_dir(group) else { return };
    let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.for_each(|directory| remove_tree(&directory.path()));
    let _ = fs::remove_dir(group);
}
