//! Finds what a sandbox may have outside the place where this instance looks for it.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coracle_core::{Error, InstanceId, Result, SandboxId};
use coracle_sys::rustix::io::Errno;

use super::Native;
use crate::mark;
use crate::weak::{self, Wall};

/// How long the kernel may take to release a device after its last user.
const SETTLE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// Refuses a sandbox of another instance: by its directory's mark, or by a cgroup of its name elsewhere. No other
/// sandbox has the same id, so such a group is its own, and we would report it as gone while it runs.
pub fn expect_ours(native: &Native, sandbox: &SandboxId) -> Result<()> {
    let ours = &native.config.instance;
    mark::expect(&native.home.place(sandbox), sandbox, ours)?;
    if !native.privilege.is_root() || native.cage(sandbox)?.has_groups() || weak::off(Wall::Mark) {
        return Ok(());
    }
    let layout = native.layout()?;
    let trees = layout.legacies().iter().map(|(_, root)| root.as_path()).chain([layout.unified()]);
    for tree in trees {
        let other = other_of(&tree.join("coracle"), sandbox, ours).map_err(|error| {
            Error::internal(format!("could not look for cgroups of sandbox `{sandbox}`"), error)
        })?;
        if let Some(other) = other {
            return Err(mark::misplaced(sandbox, &other, ours));
        }
    }
    Ok(())
}

/// Returns the other instance that has a group of this name in a tree. Fails if that cannot be determined, because
/// a sandbox that is not found counts as gone.
fn other_of(tree: &Path, sandbox: &SandboxId, ours: &InstanceId) -> io::Result<Option<InstanceId>> {
    for entry in listing(tree)? {
        let Some(instance) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if instance == *ours {
            continue;
        }
        match fs::symlink_metadata(entry.path().join(sandbox.as_str())) {
            Ok(_) => return Ok(Some(instance)),
            // Also if the group of that instance is removed while we look.
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Lists a directory; empty if it is missing.
fn listing(directory: &Path) -> io::Result<Vec<DirEntry>> {
    match fs::read_dir(directory) {
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        entries => entries?.collect(),
    }
}

/// Lists block devices backed by files of this home that no sandbox of it can be using.
pub fn remains(native: &Native) -> Result<Vec<String>> {
    let failed = |what| move |error| Error::internal(format!("could not list {what} of this home"), error);
    let deadline = Instant::now() + SETTLE;
    loop {
        let sandboxes = native.home.list().map_err(failed("the sandboxes"))?;
        let left = unused_devices(native, &sandboxes).map_err(failed("the block devices"))?;
        if left.is_empty() || Instant::now() > deadline {
            return Ok(left);
        }
        std::thread::sleep(PAUSE);
    }
}

fn unused_devices(native: &Native, sandboxes: &[SandboxId]) -> io::Result<Vec<String>> {
    // While any sandbox's directory is left it may use them: a disk that forks start from, a volume, a snapshot.
    if !sandboxes.is_empty() {
        return Ok(Vec::new());
    }
    let home = native.config.home.path();
    let home = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    devices_of(Path::new("/sys/block"), &home)
}

/// Lists the devices backed by files below a directory.
fn devices_of(devices: &Path, directory: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for device in listing(devices)? {
        let file = match fs::read_to_string(device.path().join("loop/backing_file")) {
            // Not a loop device, or one without a file, or gone meanwhile.
            Err(error) if is_absent(&error) => continue,
            file => PathBuf::from(file?.trim_end()),
        };
        if file.starts_with(directory) {
            let name = device.file_name();
            found.push(format!("/dev/{} is made of `{}`", name.to_string_lossy(), file.display()));
        }
    }
    Ok(found)
}

/// The kernel says ENXIO or ENODEV for a device or a group that is removed while it is read, and ENOTDIR for a path
/// below a file.
fn is_absent(error: &io::Error) -> bool {
    let gone = [Errno::NXIO, Errno::NODEV, Errno::NOTDIR].map(Errno::raw_os_error);
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error().is_some_and(|code| gone.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_not_taken_for_nothing() {
        let place = tempfile::tempdir().expect("a directory can be made");
        let (sandbox, ours) = ("sbx_01kca3t0m80000000000000000", "ins_01kca3t0m80000000000000000");
        let (sandbox, ours) = (sandbox.parse().expect("an id"), ours.parse().expect("an id"));
        let device = place.path().join("loop0/loop");
        fs::create_dir_all(&device).expect("it is ours");
        let devices = || devices_of(place.path(), Path::new("/home"));

        assert_eq!(other_of(&place.path().join("missing"), &sandbox, &ours).expect("it is not there"), None);
        assert_eq!(devices().expect("a device without a file is none of ours"), [""; 0]);

        // A link to itself cannot be read, not even by root.
        for link in [place.path().join("loop"), device.join("backing_file")] {
            std::os::unix::fs::symlink(link.file_name().expect("it has a name"), &link).expect("it is ours");
        }
        assert!(other_of(&place.path().join("loop"), &sandbox, &ours).is_err());
        assert!(devices().is_err());
    }
}
