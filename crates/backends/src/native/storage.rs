//! Where the files a sandbox writes are kept, and what bounds them.

use coracle_core::Spec;
use coracle_core::backend::Wall;
use coracle_core::limits::Limit;
use coracle_core::mount::{Access, Mount, Source};
use coracle_core::spec;

use super::disk::{self, Size};
use super::privilege::Privilege;
use crate::weak;

/// The mechanism for one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// A filesystem of its own in a file of the home.
    Disk(Size),
    /// A filesystem in memory, which counts as the sandbox's memory.
    Memory(Size),
    /// A directory of the home, which nothing bounds.
    Directory,
}

/// The size in megabytes of files in memory if memory has no limit.
const MEMORY_DEFAULT: u64 = 1024;
const INODES_DEFAULT: u64 = 1_000_000;

impl Storage {
    /// Chooses by the spec and by what this machine has: keeps files in memory rather than drop a limit that was
    /// asked for.
    pub fn choose(spec: &Spec, privilege: Privilege) -> Self {
        let limits = &spec.limits;
        if weak::off(weak::Wall::Disk) {
            return Self::Directory;
        }
        let inodes = limits.inodes.unwrap_or(INODES_DEFAULT);
        match (spec.storage, limits.workspace_mb) {
            (Some(spec::Storage::Memory), megabytes) => {
                Self::Memory(Size { megabytes: megabytes.unwrap_or(MEMORY_DEFAULT), inodes })
            }
            (_, None) => Self::Directory,
            (chosen, Some(megabytes)) => match why_no_disk(privilege) {
                None => Self::Disk(Size { megabytes, inodes }),
                // A caller who says `disk` does not want memory, and is refused.
                Some(_) if chosen.is_none() && in_memory_instead(spec, megabytes) => {
                    Self::Memory(Size { megabytes, inodes })
                }
                Some(_) => Self::Directory,
            },
        }
    }

    pub fn is_bounded(self) -> bool {
        self != Self::Directory
    }

    /// Says what bounds the files, for people.
    pub fn wall(self, spec: &Spec, privilege: Privilege) -> Wall {
        let size = |size: Size, place: &str| format!("{place}: {} MB, {} files", size.megabytes, size.inodes);
        if let Some(mount) = unbounded_mount(spec, privilege).filter(|_| self.is_bounded()) {
            return Wall { name: "disk".to_owned(), enforced: false, how: mount.uncounted(), hint: None };
        }
        let (how, hint) = match self {
            Self::Disk(bounds) => {
                let bounds = Size { inodes: bounds.rounded_inodes(), ..bounds };
                (size(bounds, "a filesystem of its own in a file"), None)
            }
            Self::Memory(bounds) => (size(bounds, "a filesystem in memory"), None),
            Self::Directory if spec.limits.workspace_mb.is_none() => {
                ("the caller asked for no limits".into(), None)
            }
            Self::Directory => unbounded(privilege),
        };
        Wall { name: "disk".to_owned(), enforced: self.is_bounded(), how, hint }
    }
}

/// Says which of these would be enforced here, for people.
pub fn probe(privilege: Privilege) -> Wall {
    let (enforced, (how, hint)) = match why_no_disk(privilege) {
        None => (true, ("a filesystem of its own in a file, or in memory".to_owned(), None)),
        Some(_) => (false, unbounded(privilege)),
    };
    Wall { name: "disk".to_owned(), enforced, how, hint }
}

fn unbounded(privilege: Privilege) -> (String, Option<String>) {
    let why = why_no_disk(privilege).unwrap_or("no disk was asked for");
    let hint = "with `storage: memory` files are bounded everywhere";
    (format!("a directory without a limit: {why}"), Some(hint.to_owned()))
}

/// Returns why there are no disks here, if there are none.
fn why_no_disk(privilege: Privilege) -> Option<&'static str> {
    match privilege {
        Privilege::Root => disk::missing(),
        Privilege::Rootless { .. } => Some("only root may mount disks"),
    }
}

/// Tells whether a limit that was asked for can be kept in memory instead, because there is that much.
fn in_memory_instead(spec: &Spec, megabytes: u64) -> bool {
    let fits = spec.limits.memory_mb.is_none_or(|memory| megabytes <= memory);
    spec.limits.required.contains(&Limit::Disk) && fits
}

/// Returns a writable mount that no filesystem of ours bounds.
fn unbounded_mount(spec: &Spec, privilege: Privilege) -> Option<&Mount> {
    let is_unbounded = |mount: &&Mount| {
        let ours = matches!(mount.source, Source::Volume(_)) && why_no_disk(privilege).is_none();
        mount.access == Access::ReadWrite && !ours
    };
    spec.mounts.iter().find(is_unbounded)
}
