//! The group of one sandbox, in every tree that has a part of it.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::layout::{Controller, Layout};

/// Limits in the kernel's units; `None` leaves one unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Values {
    pub cpu_millicores: Option<u64>,
    pub memory_bytes: Option<u64>,
    /// The most memory TCP and UDP may use for data in transit, where the kernel does not count that as memory: v1
    /// has a separate counter, which is off until it is limited.
    pub socket_bytes: Option<u64>,
    pub pids: Option<u64>,
}

/// Whether processes are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Population {
    Some,
    None,
    /// There is nothing to read: the group may be gone, or be in a tree that is not mounted here.
    Unseen,
}

impl Population {
    /// Reads `cgroup.events`.
    fn read(events: &str) -> Self {
        match events.lines().find_map(|line| line.strip_prefix("populated ")) {
            Some("0") => Self::None,
            Some(_) => Self::Some,
            None => Self::Unseen,
        }
    }
}

/// One sandbox's group. Making the value creates nothing on the machine.
#[derive(Debug)]
pub struct Group<'a> {
    layout: &'a Layout,
    /// Relative to the root of each tree.
    name: PathBuf,
}

const GUEST: &str = "guest";
const COMMANDS: &str = "commands";
/// The period of a CPU quota, in microseconds; the kernel's default.
const PERIOD: u64 = 100_000;

impl<'a> Group<'a> {
    /// Names the group `name` under `parent` (both relative, chosen by us).
    pub fn new(layout: &'a Layout, parent: &Path, name: &str) -> Self {
        Self { layout, name: parent.join(name) }
    }

    /// Makes the group in every tree and sets its limits. Gives the commands' group in the v2 tree to `owner`, who
    /// may then make leaves in it, move processes of its own there and freeze it.
    pub fn create(&self, values: &Values, owner: u32) -> io::Result<()> {
        for (controller, _) in self.layout.legacies() {
            make_directories(&self.legacy(*controller))?;
        }
        let unified = self.unified();
        make_directories(&unified)?;
        self.delegate_controllers(&unified)?;
        fs::create_dir_all(unified.join(GUEST))?;
        let commands = unified.join(COMMANDS);
        fs::create_dir_all(&commands)?;
        self.limit(values)?;

        let (procs, freeze) = (commands.join("cgroup.procs"), commands.join("cgroup.freeze"));
        for path in [unified.join("cgroup.procs"), commands, procs, freeze] {
            std::os::unix::fs::chown(path, Some(owner), Some(owner))?;
        }
        Ok(())
    }

    /// Turns the v2 controllers on from the root down to the group, so that `commands` can be limited.
    fn delegate_controllers(&self, group: &Path) -> io::Result<()> {
        let wanted: String = self
            .layout
            .unified_controllers()
            .iter()
            .map(|controller| format!("+{} ", controller.name()))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut directory = self.layout.unified().to_path_buf();
        let below: Vec<_> = group.strip_prefix(&directory).map_err(io::Error::other)?.components().collect();
        for component in std::iter::once(None).chain(below.into_iter().map(Some)) {
            if let Some(component) = component {
                directory.push(component);
            }
            fs::write(directory.join("cgroup.subtree_control"), &wanted)?;
        }
        Ok(())
    }

    fn limit(&self, values: &Values) -> io::Result<()> {
        let commands = self.unified().join(COMMANDS);
        let writes = [
            (Controller::Memory, values.memory_bytes, "memory.limit_in_bytes", "memory.max"),
            // The forker counts as one of them.
            (Controller::Pids, values.pids.map(|pids| pids + 1), "pids.max", "pids.max"),
        ];
        for (controller, value, legacy_file, unified_file) in writes {
            let Some(value) = value else { continue };
            if self.layout.legacy(controller).is_some() {
                fs::write(self.legacy(controller).join(legacy_file), value.to_string())?;
            } else if self.layout.is_unified(controller) {
                fs::write(commands.join(unified_file), value.to_string())?;
            }
        }
        self.limit_swap(values.memory_bytes, &commands)?;
        self.limit_sockets(values.socket_bytes)?;
        self.limit_cpu(values.cpu_millicores, &commands)
    }

    /// Limits swap to zero, because swap would make a memory limit meaningless. A kernel that does not count swap
    /// has nothing to set.
    fn limit_swap(&self, memory: Option<u64>, commands: &Path) -> io::Result<()> {
        let Some(memory) = memory else { return Ok(()) };
        let (path, value) = match self.layout.legacy(Controller::Memory) {
            Some(_) => (self.legacy(Controller::Memory).join("memory.memsw.limit_in_bytes"), memory),
            None => (commands.join("memory.swap.max"), 0),
        };
        match fs::metadata(&path) {
            Ok(_) => fs::write(path, value.to_string()),
            Err(_) => Ok(()),
        }
    }

    /// The file's name speaks of TCP, but the kernel counts UDP there, too (measured on 6.18). Data in unix sockets
    /// counts as ordinary memory.
    fn limit_sockets(&self, bytes: Option<u64>) -> io::Result<()> {
        let path = self.legacy(Controller::Memory).join("memory.kmem.tcp.limit_in_bytes");
        match bytes {
            Some(bytes) if self.layout.legacy(Controller::Memory).is_some() && path.exists() => {
                fs::write(path, bytes.to_string())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn limit_cpu(&self, millicores: Option<u64>, commands: &Path) -> io::Result<()> {
        let Some(millicores) = millicores else { return Ok(()) };
        let quota = millicores.saturating_mul(PERIOD / 1000);
        if self.layout.legacy(Controller::Cpu).is_some() {
            let directory = self.legacy(Controller::Cpu);
            fs::write(directory.join("cpu.cfs_period_us"), PERIOD.to_string())?;
            fs::write(directory.join("cpu.cfs_quota_us"), quota.to_string())
        } else if self.layout.is_unified(Controller::Cpu) {
            fs::write(commands.join("cpu.max"), format!("{quota} {PERIOD}"))
        } else {
            Ok(())
        }
    }

    /// Opens the v2 group the guest is born into.
    pub fn guest(&self) -> io::Result<OwnedFd> {
        File::open(self.unified().join(GUEST)).map(OwnedFd::from)
    }

    /// Opens the v2 group commands are born into. The descriptor goes into the sandbox, so it is a mount of its
    /// own: nothing is above it.
    pub fn commands(&self) -> io::Result<OwnedFd> {
        reopened(crate::mount::copy(&self.unified().join(COMMANDS))?)
    }

    /// Opens the `tasks` files through which a process joins the v1 groups.
    pub fn joins(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |path: PathBuf| File::options().write(true).open(path).map(OwnedFd::from);
        self.layout
            .legacies()
            .iter()
            .map(|(controller, _)| open(self.legacy(*controller).join("tasks")))
            .collect()
    }

    /// Opens the `tasks` files through which a guest leaves the v1 groups of the process that started it, for the
    /// group that all guests of this instance share. Guests are limited by their own bounds.
    pub fn guest_joins(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |path: PathBuf| File::options().write(true).open(path).map(OwnedFd::from);
        let parent = self.name.parent().unwrap_or(Path::new(""));
        self.layout.legacies().iter().map(|(_, root)| open(root.join(parent).join("tasks"))).collect()
    }

    /// Opens the file that counts kills by the OOM killer.
    pub fn memory_counter(&self) -> Option<OwnedFd> {
        let path = match self.layout.legacy(Controller::Memory) {
            Some(_) => self.legacy(Controller::Memory).join("memory.oom_control"),
            None => self.unified().join(COMMANDS).join("memory.events"),
        };
        File::open(path).ok().map(OwnedFd::from)
    }

    /// Opens the file that counts refused forks.
    pub fn pids_counter(&self) -> Option<OwnedFd> {
        let path = match self.layout.legacy(Controller::Pids) {
            Some(_) => self.legacy(Controller::Pids).join("pids.events"),
            None => self.unified().join(COMMANDS).join("pids.events"),
        };
        File::open(path).ok().map(OwnedFd::from)
    }

    /// Tells whether a process is the guest's, or one beside it.
    pub fn has_guest(&self, pid: i32) -> io::Result<bool> {
        let processes = fs::read_to_string(self.unified().join(GUEST).join("cgroup.procs"))?;
        Ok(processes.lines().any(|line| line.parse() == Ok(pid)))
    }

    /// Tells whether a process is left in it.
    pub fn population(&self) -> io::Result<Population> {
        match fs::read_to_string(self.unified().join("cgroup.events")) {
            Ok(events) => Ok(Population::read(&events)),
            Err(error) if is_gone(&error) => Ok(Population::Unseen),
            Err(error) => Err(error),
        }
    }

    /// Kills every process in the group, including those forked meanwhile, and waits until they are gone.
    pub fn kill(&self, patience: Duration) -> io::Result<()> {
        match self.kill_and_wait(patience) {
            // The group did not exist, or another process has removed it, which it can only when the group is empty.
            Err(error) if is_gone(&error) => Ok(()),
            waited => waited.map(drop),
        }
    }

    fn kill_and_wait(&self, patience: Duration) -> io::Result<Woken> {
        let guest = self.guest_pid().and_then(Pid::from_raw);
        let guest = guest.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        fs::write(self.unified().join("cgroup.kill"), "1")?;
        self.wait_until_empty(guest, Instant::now() + patience)
    }

    /// Waits until the kernel reports that the last process has gone. Returns which event led to the last look.
    ///
    /// The kernel signals a change of `cgroup.events` at most every 10 ms, and the end of a process at once. The
    /// guest is the first process of its pid namespace, so it ends last: this reads the file again when the guest
    /// has ended.
    fn wait_until_empty(&self, mut guest: Option<OwnedFd>, deadline: Instant) -> io::Result<Woken> {
        let events = File::open(self.unified().join("cgroup.events"))?;
        let mut woken = Woken::Never;
        loop {
            let mut text = [0; 256];
            let length = events.read_at(&mut text, 0)?;
            if !contains(&text[..length], b"populated 1") {
                return Ok(woken);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // A change between the read and this call is not lost: the kernel keeps the file marked until it is
            // read again.
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let mut waits = vec![PollFd::new(&events, PollFlags::PRI)];
            waits.extend(guest.as_ref().map(|guest| PollFd::new(guest, PollFlags::IN)));
            match poll(&mut waits, Some(&left)) {
                // A signal for this process says nothing about the group.
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let signalled = |wait: &PollFd<'_>| !wait.revents().is_empty();
            let ended = waits.get(1).is_some_and(signalled);
            woken = if waits.first().is_some_and(signalled) { Woken::ByFile } else { Woken::ByGuest };
            if ended {
                // A process beside the guest may be left, and only `cgroup.events` reports its end.
                guest = None;
            }
        }
    }

    /// Removes the group from every tree, and its parent if it was the last one there. Succeeds if the group is
    /// missing.
    pub fn remove(&self) -> io::Result<()> {
        let legacies = self.layout.legacies().iter().map(|(controller, _)| self.legacy(*controller));
        for path in legacies.chain([self.unified()]) {
            remove_tree(&path)?;
            // The parent stays if it has other groups.
            let _ = path.parent().map(fs::remove_dir);
        }
        Ok(())
    }

    /// Returns how many trees have the group.
    pub fn count(&self) -> usize {
        let legacies = self.layout.legacies().iter().map(|(controller, _)| self.legacy(*controller));
        legacies.chain([self.unified()]).filter(|path| path.exists()).count()
    }

    /// Returns the path of the commands' v2 group.
    pub(super) fn commands_path(&self) -> PathBuf {
        self.unified().join(COMMANDS)
    }

    /// Returns the path of the v1 group with a controller, if the controller is in a v1 tree.
    pub(super) fn legacy_path(&self, controller: Controller) -> Option<PathBuf> {
        self.layout.legacy(controller).map(|root| root.join(&self.name))
    }

    /// Returns the pid of the guest, as the machine counts.
    pub fn guest_pid(&self) -> Option<i32> {
        let processes = fs::read_to_string(self.unified().join(GUEST).join("cgroup.procs")).ok()?;
        processes.lines().next()?.parse().ok()
    }

    fn unified(&self) -> PathBuf {
        self.layout.unified().join(&self.name)
    }

    /// The v1 group has only the commands.
    fn legacy(&self, controller: Controller) -> PathBuf {
        let root = self.layout.legacy(controller).unwrap_or(Path::new("/nonexistent"));
        root.join(&self.name)
    }
}

/// Opens the directory behind a mount's descriptor, which only names a place: `clone` into a group needs it open.
fn reopened(place: OwnedFd) -> io::Result<OwnedFd> {
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    Ok(rustix::fs::openat(&place, ".", flags, rustix::fs::Mode::empty())?)
}

/// Makes a group and its parents. Retries, because another process that removes the last group beside it may be
/// removing the parents right now.
fn make_directories(path: &Path) -> io::Result<()> {
    for _ in 0..100 {
        match fs::create_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return result,
        }
    }
    fs::create_dir_all(path)
}

/// Tells whether the group is gone. The kernel answers ENODEV if it was removed after one of its files was opened.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}

/// What ended a wait for an empty group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// No event: the group was empty at the first look.
    Never,
    /// A change of `cgroup.events`.
    ByFile,
    /// The end of the guest, before `cgroup.events` was signalled.
    ByGuest,
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// Removes a group and those below it. A group whose last process is still exiting is busy for a moment.
fn remove_tree(path: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_micros(200));
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::process::{WaitOptions, waitpid};

    use super::*;
    use crate::spawn;

    #[test]
    fn only_the_kernels_word_says_that_a_group_is_empty() {
        assert_eq!(Population::read("populated 1\nfrozen 0\n"), Population::Some);
        assert_eq!(Population::read("populated 0\nfrozen 0\n"), Population::None);
        assert_eq!(Population::read(""), Population::Unseen);
    }

    const PATIENCE: Duration = Duration::from_secs(60);
    /// The most groups to end until the end of a guest ends a wait.
    const ROUNDS: usize = 500;

    /// Ends a group whose one process was just born, and returns what ended the wait.
    fn end_a_short_life(layout: &Layout, name: &str) -> io::Result<Woken> {
        let group = Group::new(layout, Path::new("coracle-sys-test"), name);
        group.create(&Values::default(), 0)?;
        let cgroup = group.guest()?;
        let child = spawn::fork_into(Some(cgroup.as_fd()), spawn::Parent::This, || {
            let _ = poll(&mut [], Some(&Timespec { tv_sec: 60, tv_nsec: 0 }));
        })?;
        let woken = group.kill_and_wait(PATIENCE);
        if let Some(child) = Pid::from_raw(child) {
            let _ = waitpid(Some(child), WaitOptions::empty());
        }
        group.remove()?;
        woken
    }

    /// The kernel holds back a second change of `cgroup.events` for up to 10 ms. On a busy machine we may look only
    /// after that, so it is enough if one guest of many shows it.
    #[test]
    fn the_end_of_a_guest_is_seen_before_the_kernel_signals_the_group() {
        // Without root there are no groups.
        let Ok(layout) = Layout::detect() else { return };
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let life = |round| {
            let name = format!("{}-{round}", std::process::id());
            end_a_short_life(&layout, &name).expect("the group ends")
        };

        assert!((0..ROUNDS).any(|round| life(round) == Woken::ByGuest));
    }
}
