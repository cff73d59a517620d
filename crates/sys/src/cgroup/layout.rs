//! Finds out which control group trees this machine has.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::mount;

/// Something a group can limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Controller {
    Cpu,
    Memory,
    Pids,
}

impl Controller {
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Pids];

    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

/// The trees and where their controllers are.
#[derive(Debug)]
pub struct Layout {
    unified: PathBuf,
    unified_controllers: Vec<Controller>,
    legacy: Vec<(Controller, PathBuf)>,
    /// Keeps our own tree mounted, if we mounted one; `unified` then leads through it.
    _mounted: Option<OwnedFd>,
}

impl Layout {
    /// Reads which trees are mounted.
    pub fn detect() -> io::Result<Self> {
        Self::from_mountinfo(&fs::read_to_string("/proc/self/mountinfo")?)
    }

    fn from_mountinfo(mountinfo: &str) -> io::Result<Self> {
        let (unified, legacy) = parse(mountinfo);
        let (unified, mounted) = match unified {
            Some(path) => (path, None),
            None => {
                let tree = mount::make("cgroup2", &[], mount::Attributes::empty())?;
                (PathBuf::from(format!("/proc/self/fd/{}", tree.as_raw_fd())), Some(tree))
            }
        };
        let available = fs::read_to_string(unified.join("cgroup.controllers"))?;
        let unified_controllers = Controller::ALL
            .into_iter()
            .filter(|controller| available.split_whitespace().any(|name| name == controller.name()))
            .collect();
        Ok(Self { unified, unified_controllers, legacy, _mounted: mounted })
    }

    /// Returns the root of the v2 tree.
    pub fn unified(&self) -> &Path {
        &self.unified
    }

    /// Returns the root of the v1 tree with this controller.
    pub fn legacy(&self, controller: Controller) -> Option<&Path> {
        self.legacy.iter().find(|(found, _)| *found == controller).map(|(_, path)| path.as_path())
    }

    /// Returns all v1 trees.
    pub fn legacies(&self) -> &[(Controller, PathBuf)] {
        &self.legacy
    }

    /// Tells whether the v2 tree has this controller.
    pub fn is_unified(&self, controller: Controller) -> bool {
        self.unified_controllers.contains(&controller)
    }

    pub fn unified_controllers(&self) -> &[Controller] {
        &self.unified_controllers
    }

    /// Returns which tree enforces a limit, or `None`.
    pub fn enforced_by(&self, controller: Controller) -> Option<&'static str> {
        match (self.legacy(controller), self.is_unified(controller)) {
            (Some(_), _) => Some("cgroup v1"),
            (None, true) => Some("cgroup v2"),
            (None, false) => None,
        }
    }
}

fn parse(mountinfo: &str) -> (Option<PathBuf>, Vec<(Controller, PathBuf)>) {
    let mut unified = None;
    let mut legacy = Vec::new();
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let Some(path) = before.split(' ').nth(4).map(PathBuf::from) else { continue };
        let mut after = after.split(' ');
        match after.next() {
            Some("cgroup2") => unified = unified.or(Some(path)),
            Some("cgroup") => {
                let options = after.nth(1).unwrap_or_default();
                for controller in Controller::ALL {
                    let mounted = options.split(',').any(|option| option == controller.name());
                    if mounted && !legacy.iter().any(|(found, _)| *found == controller) {
                        legacy.push((controller, path.clone()));
                    }
                }
            }
            _ => {}
        }
    }
    (unified, legacy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
33 25 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset";

    #[test]
    fn a_hybrid_machine_has_both_trees() {
        let (unified, legacy) = parse(HYBRID);

        assert_eq!(unified, Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(legacy[0], (Controller::Cpu, PathBuf::from("/sys/fs/cgroup/cpu,cpuacct")));
        assert_eq!(legacy[1], (Controller::Memory, PathBuf::from("/sys/fs/cgroup/memory")));
        assert_eq!(legacy.len(), 2);
    }

    #[test]
    fn a_pure_v2_machine_has_one_tree() {
        let (unified, legacy) =
            parse("30 25 0:27 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate");

        assert_eq!(unified, Some(PathBuf::from("/sys/fs/cgroup")));
        assert!(legacy.is_empty());
    }

    #[test]
    fn a_pure_v1_machine_has_no_v2_tree() {
        let (unified, legacy) = parse("31 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory");

        assert_eq!(unified, None);
        assert_eq!(legacy.len(), 1);
    }
}
