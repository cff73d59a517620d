//! What the numbers depend on: the machine, how busy it is, and the versions of the peers.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Programs whose versions the report names, and the flag that prints each.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("bwrap", &["--version"]),
    ("crun", &["--version"]),
    ("runc", &["--version"]),
    ("podman", &["--version"]),
    ("dockerd", &["--version"]),
    ("docker", &["--version"]),
    ("/usr/bin/python3", &["--version"]),
];

const PACKAGES: &str = "from importlib.metadata import version
for name in ('autogen-ext', 'llm-sandbox'): print(name, version(name))";

/// One machine at one time.
#[derive(Debug)]
pub struct Machine {
    cpus: usize,
    memory_mib: u64,
    kernel: String,
    load: f64,
    versions: Vec<String>,
}

impl Machine {
    pub fn look_at() -> Self {
        Self {
            cpus: std::thread::available_parallelism().map_or(0, |number| number.get()),
            memory_mib: meminfo("MemTotal").unwrap_or(0) >> 10,
            kernel: read("/proc/sys/kernel/osrelease"),
            load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
            versions: versions(),
        }
    }

    /// Tells whether other processes use it so much that no ratio can be trusted.
    pub fn is_busy(&self) -> bool {
        self.load > self.cpus as f64 / 2.0
    }

    /// Returns it as lines for people.
    pub fn describe(&self) -> String {
        let Self { cpus, memory_mib, kernel, load, versions } = self;
        let architecture = std::env::consts::ARCH;
        let mut text =
            format!("{cpus} CPUs ({architecture}), {memory_mib} MiB, kernel {kernel}, load {load:.1}\n");
        text += &format!("{}\n", versions.join("; "));
        if self.is_busy() {
            text += "The machine is busy: the ratios below are not to be trusted.\n";
        }
        text
    }

    pub fn document(&self) -> Value {
        json!({"cpus": self.cpus, "memory_mib": self.memory_mib, "kernel": self.kernel, "load": self.load,
            "architecture": std::env::consts::ARCH, "versions": self.versions})
    }
}

/// Returns a line of `/proc/meminfo`, in KiB.
pub fn meminfo(name: &str) -> Option<u64> {
    let text = read("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

fn versions() -> Vec<String> {
    let mut versions: Vec<String> = PROGRAMS
        .iter()
        .filter_map(|(program, arguments)| {
            Some(said(Command::new(program).args(*arguments))?.first()?.clone())
        })
        .collect();
    if let Some(python) = std::env::var_os(crate::workshop::PYTHON_VARIABLE) {
        versions.extend(said(Command::new(python).args(["-c", PACKAGES])).unwrap_or_default());
    }
    versions
}

fn said(command: &mut Command) -> Option<Vec<String>> {
    let output = command.stdin(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_less_memory_available_than_there_is() {
        let (available, total) = (meminfo("MemAvailable"), meminfo("MemTotal"));

        assert!(available.is_some_and(|available| Some(available) < total));
        assert_eq!(meminfo("Mem"), None);
    }
}
