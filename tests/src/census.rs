//! A count of everything one home has on the machine: processes, cgroups, mounts, namespaces, directories.
//!
//! Processes are known by a mark that survives fork, exec and every namespace: the soft limit on message queues, which
//! the harness sets to a number of its own for each home and nothing else cares about.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How deep below a well-known directory something of ours may lie.
const DEPTH_MAX: usize = 6;
const INSTANCE_PREFIX: &[u8] = b"ins_";
const INSTANCE_LEN: usize = 4 + 26;

/// All processes, mounts, directories and cgroups of a home at one moment.
#[derive(Debug, Clone, Default)]
pub struct Census {
    pub processes: Vec<Process>,
    pub cgroups: Vec<PathBuf>,
    pub mounts: Vec<String>,
    pub directories: Vec<PathBuf>,
}

/// One process of a home, a call of the binary or something in a sandbox.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: u32,
    /// Its number in its own pid namespace.
    pub inner_pid: u32,
    pub command: String,
    /// The namespaces it has and we have not.
    pub namespaces: BTreeSet<String>,
}

impl Process {
    /// Ends it at once, if it is still there.
    pub fn kill(&self) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let handle = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let _ = handle.map(|handle| pidfd_send_signal(handle, Signal::KILL));
    }

    /// Tells whether it is PID 1 of a sandbox.
    pub fn is_guest(&self) -> bool {
        self.inner_pid == 1 && !self.namespaces.is_empty()
    }
}

impl Census {
    /// Counts what belongs to a home.
    pub fn take(home: &Path, mark: u64, instance: Option<&str>) -> Self {
        let of_ours = |path: &Path| instance.is_some_and(|id| path.to_string_lossy().contains(id));
        let mut directories = find(home, &|path| file_name(path).contains("sbx_"));
        for outside in ["/run", "/dev/shm", "/var/tmp"] {
            directories.extend(find(Path::new(outside), &of_ours));
        }
        Self {
            processes: processes(mark),
            cgroups: cgroups(instance),
            mounts: mounts(home, instance),
            directories,
        }
    }

    /// Adds what the containers of an engine have, by their ids: those processes come from the engine and bear no mark.
    pub fn add_containers(&mut self, ids: &[String], groups: &[PathBuf]) {
        let ours = links("/proc/self/ns");
        let belongs = |pid: &u32| {
            let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            ids.iter().any(|id| group.contains(id.as_str()))
        };
        let inside = pids().into_iter().filter(belongs);
        self.processes.extend(inside.filter_map(|pid| describe(pid, &ours)));
        let of_ours = |path: &Path| ids.iter().any(|id| file_name(path).contains(id.as_str()));
        self.cgroups.extend(groups.iter().flat_map(|group| find(group, &of_ours)));
    }

    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
            && self.cgroups.is_empty()
            && self.mounts.is_empty()
            && self.directories.is_empty()
    }

    /// Returns the namespaces the processes have made.
    pub fn namespaces(&self) -> BTreeSet<String> {
        self.processes.iter().flat_map(|process| process.namespaces.iter().cloned()).collect()
    }

    /// Returns the processes whose command line holds a word.
    pub fn named(&self, word: &str) -> Vec<&Process> {
        self.processes
            .iter()
            .filter(|process| process.command.contains(word) && !process.namespaces.is_empty())
            .collect()
    }

    pub fn guests(&self) -> Vec<u32> {
        self.processes.iter().filter(|process| process.is_guest()).map(|process| process.pid).collect()
    }

    /// Describes the census, for messages of tests.
    pub fn describe(&self) -> String {
        let processes = self.processes.iter();
        let processes = processes.map(|process| {
            format!("process {} ({} inside): {}", process.pid, process.inner_pid, process.command)
        });
        let cgroups = self.cgroups.iter().map(|path| format!("cgroup {}", path.display()));
        let mounts = self.mounts.iter().map(|mount| format!("mount {mount}"));
        let directories = self.directories.iter().map(|path| format!("directory {}", path.display()));
        processes.chain(cgroups).chain(mounts).chain(directories).collect::<Vec<_>>().join("\n")
    }
}

/// Returns those of the namespaces that are mounted somewhere or held open by a process that is no sandbox's.
///
/// Processes in them need no look: they carry the mark. Nor do those of other homes: numbers are used again.
pub fn still_held(namespaces: &BTreeSet<String>) -> BTreeSet<String> {
    let unmarked = mark_of(std::process::id());
    let others = pids().into_iter().filter(|pid| mark_of(*pid) == unmarked);
    let open: BTreeSet<String> = others.flat_map(|pid| links(&format!("/proc/{pid}/fd"))).collect();
    let mounted = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    namespaces
        .iter()
        .filter(|name| open.contains(*name) || mounted.contains(name.as_str()))
        .cloned()
        .collect()
}

/// Returns how many threads are in a namespace, such as `net:[4026531840]`.
pub fn holders(namespace: &str) -> usize {
    let threads = pids().into_iter().flat_map(|pid| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        tasks.map(|task| task.path().join("ns").to_string_lossy().into_owned()).collect::<Vec<_>>()
    });
    threads.filter(|directory| links(directory).contains(namespace)).count()
}

/// Returns the id a home goes by on the machine, once it has one. It stands in its database.
pub fn instance(home: &Path) -> Option<String> {
    let files = fs::read_dir(home).ok()?.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    files.filter_map(|path| fs::read(path).ok()).find_map(|bytes| instance_in(&bytes))
}

fn instance_in(bytes: &[u8]) -> Option<String> {
    let candidates = bytes.windows(INSTANCE_LEN).filter(|window| window.starts_with(INSTANCE_PREFIX));
    let mut texts = candidates.filter_map(|window| std::str::from_utf8(window).ok());
    texts
        .find(|text| text[INSTANCE_PREFIX.len()..].bytes().all(|byte| byte.is_ascii_alphanumeric()))
        .map(str::to_owned)
}

fn processes(mark: u64) -> Vec<Process> {
    let ours = links("/proc/self/ns");
    pids()
        .into_iter()
        .filter(|pid| mark_of(*pid) == Some(mark))
        .filter_map(|pid| describe(pid, &ours))
        .collect()
}

/// Returns the soft limit on message queues, which tells whose a process is.
fn mark_of(pid: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max msgqueue size"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// Returns nothing for a process that is gone, or dead and not yet reaped by its parent.
fn describe(pid: u32, ours: &BTreeSet<String>) -> Option<Process> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if field("State:").is_some_and(|state| state.starts_with(['Z', 'X'])) {
        return None;
    }
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let inner_pid = field("NSpid:")?.split_whitespace().last()?.parse().ok()?;
    let namespaces = links(&format!("/proc/{pid}/ns")).difference(ours).cloned().collect();
    Some(Process { pid, inner_pid, command: format!("{} {command}", field("Name:")?), namespaces })
}

fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns where the links in a directory of /proc point, such as `net:[4026531840]`.
pub fn links(directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
        .collect()
}

/// Returns the cgroups of sandboxes, in every tree.
fn cgroups(instance: Option<&str>) -> Vec<PathBuf> {
    let group = |path: &Path| file_name(path).contains("sbx_") && path.is_dir();
    instance_groups(instance).iter().flat_map(|directory| find(directory, &group)).collect()
}

/// Returns the cgroup an instance keeps its sandboxes' in, in every tree that has one.
pub fn instance_groups(instance: Option<&str>) -> Vec<PathBuf> {
    let Some(instance) = instance else { return Vec::new() };
    find(Path::new("/sys/fs/cgroup"), &|path| file_name(path) == instance)
}

/// Returns the mounts that lie in a home, show a part of it, or carry the name of its instance.
pub fn mounts(home: &Path, instance: Option<&str>) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let home = home.to_string_lossy();
    let of_ours = |line: &&str| line.contains(&*home) || instance.is_some_and(|id| line.contains(id));
    table.lines().filter(of_ours).map(str::to_owned).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns every path below a directory that is `wanted`; symlinks are not followed, nor is anything below a find.
fn find(directory: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![(directory.to_owned(), 0)];
    while let Some((directory, depth)) = pending.pop() {
        for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if wanted(&path) {
                found.push(path);
            } else if depth < DEPTH_MAX && path.is_dir() && !path.is_symlink() {
                pending.push((path, depth + 1));
            }
        }
    }
    found
}
