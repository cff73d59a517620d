//! Thousands of sandboxes made, used and destroyed by one process leave nothing that grows: no descriptor, mount,
//! cgroup, namespace, device, memory or file.
//!
//! A test binary of its own: it counts the descriptors and the memory of its process, so no other test may share that.

use std::fs;
use std::path::Path;

use coracle::{Config, Coracle, SpecInput};
use coracle_core::spec::Storage;
use coracle_tests::{census, count, requires};

/// What there is of each thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    descriptors: usize,
    mounts: usize,
    cgroups: usize,
    devices: usize,
    files: usize,
}

impl Counts {
    fn now(home: &Path) -> Self {
        let entries = |path: &str| fs::read_dir(path).map_or(0, Iterator::count);
        let loops = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let of_home = |path: &Path| {
            fs::read_to_string(path).is_ok_and(|file| file.starts_with(&*home.to_string_lossy()))
        };
        Self {
            descriptors: entries("/proc/self/fd"),
            mounts: census::mounts(home, census::instance(home).as_deref()).len(),
            cgroups: cgroups(Path::new("/sys/fs/cgroup"), home),
            devices: loops.filter(|entry| of_home(&entry.path().join("loop/backing_file"))).count(),
            files: files(home),
        }
    }
}

/// Counts the cgroups below the instance of a home.
fn cgroups(tree: &Path, home: &Path) -> usize {
    let Some(instance) = census::instance(home) else { return 0 };
    let trees = fs::read_dir(tree).into_iter().flatten().flatten().map(|entry| entry.path());
    trees.chain([tree.to_owned()]).map(|tree| files(&tree.join("coracle").join(&instance))).sum()
}

fn files(path: &Path) -> usize {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| 1 + if entry.path().is_dir() { files(&entry.path()) } else { 0 }).sum()
}

/// Returns the memory this process holds for itself, in KiB.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line =
        status.lines().find(|line| line.starts_with("RssAnon:")).expect("it says how much memory it has");
    line.split_whitespace().nth(1).and_then(|size| size.parse().ok()).expect("a size is a number")
}

fn cycle(coracle: &Coracle, number: usize) {
    let storage = if number.is_multiple_of(2) { Storage::Memory } else { Storage::Disk };
    let spec = SpecInput { storage: Some(storage), ..SpecInput::default() };
    let sandbox = coracle.create(spec).expect("a sandbox is made");
    let ran = sandbox.exec(["true"]).expect("a command runs");
    assert_eq!(ran.progress.exit_code, Some(0));
    sandbox.close().expect("a sandbox is closed");
}

#[test]
fn nothing_grows() {
    requires!(native);
    let home = tempfile::tempdir().expect("a directory can be made");
    // Output of closed sandboxes is kept for a while, on purpose.
    let config = Config { logs_retention: std::time::Duration::ZERO, ..Config::at(home.path()) };
    let coracle = Coracle::open(config).expect("a home can be opened");
    let rounds = count(250, 10_000);
    // Whatever is made once and kept is made by then.
    (0..20).for_each(|number| cycle(&coracle, number));
    let (before, memory_before) = (Counts::now(home.path()), memory());

    (0..rounds).for_each(|number| cycle(&coracle, number));

    assert_eq!(Counts::now(home.path()), before);
    let grown = memory().saturating_sub(memory_before);
    assert!(grown < 4 << 10, "{grown} KiB more after {rounds} sandboxes");
}
