//! What a sandbox may have outside the place where this instance looks for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coracle_core::{Error, InstanceId, Result, SandboxId};

use super::Native;
use crate::mark;
use crate::weak::{self, Wall};

/// How long the kernel may take to let go of a device after its last user.
const SETTLE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// Refuses a sandbox that is another instance's: by its room's mark, or by a cgroup that bears its name elsewhere. No other
/// sandbox has the same id, so such a group is its own, and it would be called gone while it runs.
pub fn expect_ours(native: &Native, sandbox: &SandboxId) -> Result<()> {
    let ours = &native.setting.instance;
    mark::expect(&native.home.place(sandbox), sandbox, ours)?;
    if !native.privilege.is_root() || native.cage(sandbox)?.has_groups() || weak::off(Wall::Mark) {
        return Ok(());
    }
    let layout = native.layout()?;
    let trees = layout.legacies().iter().map(|(_, root)| root.as_path()).chain([layout.unified()]);
    let mut instances = trees.flat_map(|tree| instances(&tree.join("coracle")));
    match instances.find(|(path, other)| other != ours && path.join(sandbox.as_str()).exists()) {
        Some((_, other)) => Err(mark::misplaced(sandbox, &other, ours)),
        None => Ok(()),
    }
}

fn instances(directory: &Path) -> Vec<(PathBuf, InstanceId)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), entry.file_name().to_str()?.parse().ok()?))).collect()
}

/// Lists block devices made of files of this home that no room of it can be using.
pub fn remains(native: &Native) -> Result<Vec<String>> {
    let failed = |error| Error::internal("could not list the sandboxes of this home", error);
    let deadline = Instant::now() + SETTLE;
    loop {
        let rooms = native.home.list().map_err(failed)?;
        let left = unused_devices(native, &rooms);
        if left.is_empty() || Instant::now() > deadline {
            return Ok(left);
        }
        std::thread::sleep(PAUSE);
    }
}

fn unused_devices(native: &Native, rooms: &[SandboxId]) -> Vec<String> {
    let home = fs::canonicalize(&native.setting.home).unwrap_or_else(|_| native.setting.home.clone());
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let made_of = devices.filter_map(|device| {
        let file = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        Some((device.file_name(), PathBuf::from(file.trim_end())))
    });
    // While a room is left its sandbox may use them: a disk others were forked from, a volume, a snapshot.
    let unused = |file: &Path| rooms.is_empty() && file.starts_with(&home);
    let left = made_of.filter(|(_, file)| unused(file));
    left.map(|(name, file)| format!("/dev/{} is made of `{}`", name.to_string_lossy(), file.display()))
        .collect()
}
