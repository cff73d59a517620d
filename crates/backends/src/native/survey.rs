//! What sandboxes of this instance have left on the machine.

use std::collections::BTreeSet;
use std::path::Path;

use coracle_core::backend::Found;
use coracle_core::{Error, Result, SandboxId};

use super::Native;

/// Lists them, by their cgroups in any tree and their directories in the home.
pub fn survey(native: &Native) -> Result<Vec<Found>> {
    let mut sandboxes: BTreeSet<SandboxId> = native
        .home
        .list()
        .map_err(|error| Error::internal("could not list the sandboxes of this home", error))?
        .into_iter()
        .collect();
    if native.privilege.is_root() {
        let layout = native.layout()?;
        let parent = native.parent();
        let trees = layout.legacies().iter().map(|(_, root)| root.as_path()).chain([layout.unified()]);
        sandboxes.extend(trees.flat_map(|tree| groups(&tree.join(&parent))));
    }
    sandboxes.into_iter().map(|sandbox| describe(native, sandbox)).collect()
}

fn groups(directory: &Path) -> Vec<SandboxId> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn describe(native: &Native, sandbox: SandboxId) -> Result<Found> {
    let cage = native.cage(&sandbox)?;
    let processes = cage
        .is_populated()
        .map_err(|error| Error::internal(format!("could not look at sandbox `{sandbox}`"), error))?;
    let alive = processes && native.home.connect(&sandbox).is_ok();
    let there =
        [("process", processes), ("cgroup", cage.has_groups()), ("directory", native.home.has(&sandbox))];
    let objects = there.into_iter().filter(|(_, there)| *there).map(|(name, _)| name.to_owned()).collect();
    Ok(Found { sandbox, alive, objects })
}
