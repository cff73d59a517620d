//! Finds what sandboxes of this instance have on the machine.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use coracle_core::backend::{Found, GuestEnd};
use coracle_core::{Error, Kind, Result, SandboxId, Timestamp};
use coracle_sys::cgroup::Population;
use coracle_wire::End;

use super::{Native, elsewhere};
use crate::place;

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
        for tree in trees {
            let listed = groups(&tree.join(&parent));
            sandboxes.extend(listed.map_err(|error| Error::internal("could not list cgroups", error))?);
        }
    }
    sandboxes.into_iter().map(|sandbox| describe(native, sandbox)).collect()
}

fn groups(directory: &Path) -> io::Result<Vec<SandboxId>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut sandboxes = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sandboxes.extend(entry.file_name().to_str().and_then(|name| name.parse().ok()));
        }
    }
    Ok(sandboxes)
}

fn describe(native: &Native, sandbox: SandboxId) -> Result<Found> {
    if elsewhere::expect_ours(native, &sandbox).is_err() {
        // We cannot say that a sandbox another instance has made is gone.
        let objects = vec!["directory".to_owned()];
        return Ok(Found { sandbox, alive: false, elsewhere: true, end: None, files: false, objects });
    }
    let cage = native.cage(&sandbox)?;
    let population = cage
        .population()
        .map_err(|error| Error::internal(format!("could not look at sandbox `{sandbox}`"), error))?;
    let alive = is_alive(native, &sandbox, population)?;
    let there = [
        ("process", population == Population::Some),
        ("cgroup", cage.has_groups()),
        ("directory", native.home.has(&sandbox)),
    ];
    let objects = there.into_iter().filter(|(_, there)| *there).map(|(name, _)| name.to_owned()).collect();
    let end = if alive { None } else { guest_end(native, &sandbox) };
    let files = native.home.has_files(&sandbox);
    Ok(Found { sandbox, alive, elsewhere: false, end, files, objects })
}

/// Returns how a guest ended that is gone, by what it wrote. Its file is in our directory, and only the guest has
/// it open: no command can.
pub fn guest_end(native: &Native, sandbox: &SandboxId) -> Option<GuestEnd> {
    let (end, at) = native.home.end(sandbox)?;
    Some(match end {
        End::Idle => GuestEnd::Idle { ended: timestamp(at) },
        End::Asleep => GuestEnd::Asleep { ended: timestamp(at) },
        End::Untied => GuestEnd::Untied,
    })
}

fn timestamp(at: SystemTime) -> Timestamp {
    let since_1970 = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX))
}

/// Tells whether a guest listens. Fails if neither that nor the opposite is proved: the reader of the survey would
/// destroy the sandbox.
fn is_alive(native: &Native, sandbox: &SandboxId, population: Population) -> Result<bool> {
    match native.home.connect(sandbox) {
        Ok(_) => Ok(true),
        Err(error) if place::proves_death(&error) || population == Population::None => Ok(false),
        Err(error) => {
            let message = format!("could not tell whether sandbox `{sandbox}` is alive");
            Err(Error::new(Kind::NotAvailable, message)
                .hint("nothing was changed; see whether this process may open enough files (`ulimit -n`)")
                .caused_by(error))
        }
    }
}
