//! What an idle sandbox costs in memory.
//!
//! What counts is the drop of available memory on the machine, because that covers everything: page tables,
//! namespaces, mounts, sockets, and what the processes share. The other numbers explain it: what their processes have
//! (each page divided by how many share it), and what the kernel counts as its own memory in their cgroups.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use coracle::{Config, Coracle, SandboxId, SpecInput};
use coracle_core::spec::Storage;

use super::crowd::Crowd;
use crate::arguments::Scale;
use crate::cases::name;
use crate::machine;
use crate::measured::{Measured, Unit};
use crate::study::Study;
use crate::workshop::Workshop;

/// The kernel brings its counters together once a second.
const COUNTERS_LAG: Duration = Duration::from_millis(1500);

/// How often the crowd comes and goes; each time memory is seen to go away and to come back.
const REPEATS: usize = 3;
/// By how much the middle half of what is seen may differ to be believed.
const AGREEMENT: f64 = 1.5;

/// A place for files, and what is measured of sandboxes that have it.
#[derive(Debug)]
pub struct Kept {
    storage: Storage,
    /// All, processes, kernel.
    pub names: &'static [&'static str; 3],
}

pub const STORAGES: [Kept; 2] = [
    Kept {
        storage: Storage::Memory,
        names: &[name::IDLE_IN_MEMORY, name::IDLE_IN_MEMORY_PROCESSES, name::IDLE_IN_MEMORY_KERNEL],
    },
    Kept {
        storage: Storage::Disk,
        names: &[name::IDLE_ON_DISK, name::IDLE_ON_DISK_PROCESSES, name::IDLE_ON_DISK_KERNEL],
    },
];

pub struct Memory {
    home: PathBuf,
    number: usize,
    kept: Kept,
}

impl Memory {
    pub fn new(workshop: &Workshop, kept: Kept) -> Self {
        let number = match workshop.scale {
            Scale::Ordinary => 100,
            Scale::Full => 1000,
        };
        Self { home: workshop.path(&format!("home-idle-{:?}", kept.storage)), number, kept }
    }
}

impl Study for Memory {
    fn names(&self) -> &'static [&'static str] {
        self.kept.names
    }

    fn carry_out(self: Box<Self>, measured: &mut Measured) -> Result<()> {
        // Spares would be counted, too.
        let coracle = Coracle::open(Config { spares: Some(0), ..Config::at(&self.home) })?;
        let spec = SpecInput { storage: Some(self.kept.storage), ..SpecInput::default() };
        // What the first one needs once, the others share.
        let _first = Crowd::gather(&coracle, 1, &spec)?;
        let mut differences = Vec::new();
        for _ in 0..REPEATS {
            let before = available()?;
            let crowd = Crowd::gather(&coracle, self.number, &spec)?;
            let during = available()?;
            self.explain(&crowd, measured)?;
            drop(crowd);
            differences.extend([before - during, available()? - during]);
        }
        let each = agreed(differences)? / self.number as f64;
        measured.note(self.kept.names[0], each, Unit::KibibytesEach);
        Ok(())
    }
}

impl Memory {
    /// Notes what is known of where the memory is.
    fn explain(&self, crowd: &Crowd<'_>, measured: &mut Measured) -> Result<()> {
        let [_, processes, kernel] = *self.kept.names;
        let each = |kibibytes: f64| kibibytes / self.number as f64;
        let footprint = Footprint::of(&crowd.ids);
        ensure!(footprint.processes >= self.number, "only {} processes are left", footprint.processes);
        measured.note(processes, each(footprint.proportional), Unit::KibibytesEach);
        if let Some(kibibytes) = footprint.kernel() {
            measured.note(kernel, each(kibibytes), Unit::KibibytesEach);
        }
        Ok(())
    }
}

/// Returns the middle of differences that agree. Where they do not, others took or gave back memory meanwhile.
fn agreed(mut differences: Vec<f64>) -> Result<f64> {
    differences.sort_by(f64::total_cmp);
    let quarter = differences.len() / 4;
    let (low, high) = (differences[quarter], differences[differences.len() - 1 - quarter]);
    ensure!(
        low > 0.0 && high <= AGREEMENT * low,
        "the machine is not quiet enough: between {low:.0} and {high:.0} KiB went away and came back"
    );
    Ok((low + high) / 2.0)
}

/// Returns how many KiB are available, after the kernel has had time to count.
fn available() -> Result<f64> {
    std::thread::sleep(COUNTERS_LAG);
    let available = machine::meminfo("MemAvailable").context("the kernel does not say what is available")?;
    Ok(available as f64)
}

/// What the processes of some sandboxes have.
#[derive(Default)]
struct Footprint {
    processes: usize,
    /// KiB, each page divided by how many processes share it.
    proportional: f64,
    /// The cgroups of the instance, in any tree.
    groups: HashSet<PathBuf>,
}

impl Footprint {
    /// Finds them by their cgroups, which are named after them.
    fn of(ids: &[SandboxId]) -> Self {
        let ids: HashSet<&str> = ids.iter().map(SandboxId::as_str).collect();
        let mut footprint = Self::default();
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let groups = std::fs::read_to_string(process.path().join("cgroup")).unwrap_or_default();
            if groups.split(['/', '\n']).any(|part| ids.contains(part)) {
                footprint.add(&process.path(), &groups);
            }
        }
        footprint
    }

    fn add(&mut self, process: &Path, groups: &str) {
        let text = std::fs::read_to_string(process.join("smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        self.processes += 1;
        self.proportional += kibibytes.unwrap_or(0.0);
        self.groups.extend(groups.lines().filter_map(instance_group));
    }

    /// Returns how many KiB the kernel counts as its own, where it counts.
    fn kernel(&self) -> Option<f64> {
        let bytes = self.groups.iter().filter_map(|group| kernel_bytes(group));
        bytes.reduce(|sum, bytes| sum + bytes).map(|bytes| bytes / 1024.0)
    }
}

/// Returns the directory of the instance a line of `/proc/PID/cgroup` leads through.
fn instance_group(line: &str) -> Option<PathBuf> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let end = path
        .find("/ins_")
        .map(|start| path[start + 1..].find('/').map_or(path.len(), |end| start + 1 + end))?;
    let tree = match controllers {
        "memory" => "/sys/fs/cgroup/memory",
        "" => "/sys/fs/cgroup",
        _ => return None,
    };
    Some(PathBuf::from(format!("{tree}{}", &path[..end])))
}

fn kernel_bytes(group: &Path) -> Option<f64> {
    if let Ok(text) = std::fs::read_to_string(group.join("memory.kmem.usage_in_bytes")) {
        return text.trim().parse().ok();
    }
    let text = std::fs::read_to_string(group.join("memory.stat")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("kernel "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_believed_only_where_they_agree() {
        let quiet = agreed(vec![100.0, 104.0, 99.0, 101.0, 400.0, 103.0]).expect("they agree");

        assert_eq!(quiet, 102.0);
        assert!(agreed(vec![-5.0, 104.0, -3.0, 101.0, 400.0, 103.0]).is_err());
        assert!(agreed(vec![10.0, 50.0, 90.0, 130.0, 170.0, 210.0]).is_err());
    }

    #[test]
    fn the_group_of_an_instance_is_found_in_both_kinds_of_tree() {
        let old = instance_group("4:memory:/coracle/ins_1/sbx_2");
        let new = instance_group("0::/user/coracle/ins_1");

        assert_eq!(old, Some(PathBuf::from("/sys/fs/cgroup/memory/coracle/ins_1")));
        assert_eq!(new, Some(PathBuf::from("/sys/fs/cgroup/user/coracle/ins_1")));
        assert_eq!(instance_group("8:pids:/coracle/ins_1/sbx_2"), None);
        assert_eq!(instance_group("0::/init.scope"), None);
    }
}
