//! Reads what the processes of a group have used.

use std::fs;
use std::path::PathBuf;

use super::group::Group;
use super::layout::Controller;

/// What the commands of one sandbox use. Absent where this machine does not count it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    pub cpu_ms: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    pub processes: Option<u64>,
}

impl Group<'_> {
    /// Reads the counters. A group that is gone has none.
    pub fn usage(&self) -> Counted {
        let memory = |legacy, unified| number(self.file(Controller::Memory, legacy, unified));
        // The forker counts as one, but is not a command.
        let processes = number(self.file(Controller::Pids, "pids.current", "pids.current"));
        Counted {
            cpu_ms: self.cpu_ms(),
            memory_bytes: memory("memory.usage_in_bytes", "memory.current"),
            memory_peak_bytes: memory("memory.max_usage_in_bytes", "memory.peak"),
            processes: processes.map(|count| count.saturating_sub(1)),
        }
    }

    /// The v2 tree counts CPU time even without the controller.
    fn cpu_ms(&self) -> Option<u64> {
        let text = fs::read_to_string(self.commands_path().join("cpu.stat")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        line.parse::<u64>().ok().map(|micros| micros / 1000)
    }

    fn file(&self, controller: Controller, legacy: &str, unified: &str) -> PathBuf {
        match self.legacy_path(controller) {
            Some(directory) => directory.join(legacy),
            None => self.commands_path().join(unified),
        }
    }
}

fn number(path: PathBuf) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim_end().parse().ok()
}
