//! The guest as PID 1 of a container that a container engine made. Root, namespaces and mounts exist already; the
//! plan comes on standard input and the answer goes to standard output. The guest keeps neither, so no command ever
//! holds them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use coracle_sys::rustix::fs::{CWD, Gid, Mode, OFlags, ResolveFlags, Uid, fstatfs, mkdirat, open, openat2};
use coracle_sys::rustix::io::Errno;
use coracle_sys::rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use coracle_sys::{loopback, rustix, spawn};
use coracle_wire::{Boot, GuestReport, Report};

use super::{Built, Failure, Plan, drop_privileges, start_forker};
use crate::forker::{Fenced, Forker};
use crate::reactor::{Parts, Reactor};
use crate::weak::{self, Wall};
use crate::{GUEST_ID, egress, files};

/// Where the host, or `guest connect` on its behalf, finds the guest. Commands cannot enter this directory.
pub const SOCKET: &str = "/.coracle/run/guest";
const DIRECTORY: &str = "/.coracle/run";

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// The environment is at most 512 KiB, the filters a few KiB.
const PLAN_MAX: usize = 1 << 20;

/// The filesystems on which the kernel shows limits.
const CGROUP: i64 = 0x0027_e0eb;
const CGROUP2: i64 = 0x6367_7270;

/// Boots, reports the result to the host, and serves.
pub fn run() {
    let Ok(answer) = let_go_of_streams() else { return };
    let started = receive(&answer.0).and_then(|plan| start(plan, &answer.1));
    match started {
        Ok(reactor) => {
            drop(answer);
            reactor.run();
        }
        Err(failure) => drop(tell(&answer.1, &Err(failure.to_string()))),
    }
}

/// Returns the streams the container engine gave us and puts `/dev/null` in their place, because forks inherit
/// them.
fn let_go_of_streams() -> io::Result<(File, File)> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for number in 0..3 {
        spawn::place(null.as_fd(), number)?;
    }
    Ok((input, output))
}

fn receive(mut input: &File) -> Result<Plan, Failure> {
    let mut payload = || {
        let mut header = [0; coracle_wire::HEADER_LEN];
        input.read_exact(&mut header)?;
        let length = u32::from_le_bytes(header) as usize;
        if length > PLAN_MAX {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        let mut payload = vec![0; length];
        input.read_exact(&mut payload)?;
        Ok(payload)
    };
    let payload = payload().map_err(Failure::at("receive the boot plan"))?;
    let boot: Boot = coracle_wire::decode(&payload)
        .map_err(io::Error::other)
        .map_err(Failure::at("read the boot plan"))?;
    weak::heed(boot.weakened);
    let listener = listen().map_err(Failure::at("listen for the host"))?;
    Ok(Plan {
        listener,
        end: None,
        layers: Vec::new(),
        storage: None,
        devices: Vec::new(),
        overlays: Vec::new(),
        mounts: Vec::new(),
        bases: Vec::new(),
        commands: None,
        joins: Vec::new(),
        memory_counter: counter("memory/memory.oom_control", "memory.events"),
        pids_counter: counter("pids/pids.events", "pids.events"),
        boot,
    })
}

/// Binds the guest's socket and makes its directory the guest's alone: commands may run as its previous owner.
fn listen() -> io::Result<UnixListener> {
    // If the image has a link here, a command could put another program in its place and have it run with our
    // rights.
    if !weak::off(Wall::Targets) {
        openat2(CWD, DIRECTORY, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), plain())?;
    }
    if !weak::off(Wall::GuestDirectory) {
        let own = open(DIRECTORY, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        files::keep_out_of(own.as_fd())?;
    }
    let listener = UnixListener::bind(SOCKET)?;
    std::os::unix::fs::chown(DIRECTORY, Some(GUEST_ID), Some(GUEST_ID))?;
    std::fs::set_permissions(DIRECTORY, std::fs::Permissions::from_mode(0o700))?;
    Ok(listener)
}

fn start(plan: Plan, answer: &File) -> Result<Reactor, Failure> {
    let Built { devpts, bottom, .. } = build()?;
    let listeners = egress::bind(&plan)?;
    let forker = start_forker(&plan, bottom.as_fd())?;
    drop_privileges(&plan)?;
    // Listens again, as the guest's user: the host checks the listener's user before it sends its secret.
    rustix::net::listen(&plan.listener, BACKLOG).map_err(Failure::at("listen as the guest"))?;
    let mut report = stand(&plan, &forker).map_err(Failure::at("read its own status"))?;
    // The container engine keeps the container's files, and the guest has no place among them that commands do not see.
    let parts = Parts { devpts, forker, listeners, past: None };
    let reactor = Reactor::new(plan, parts).map_err(Failure::at("start serving"))?;
    report.knows_user = reactor.knows_user();
    crate::serve::keep_reserve().map_err(Failure::at("start threads"))?;
    tell(answer, &Ok(report)).map_err(Failure::at("tell the host"))?;
    Ok(reactor)
}

/// Adds to the container what every sandbox has.
fn build() -> Result<Built, Failure> {
    make_directory("/workspace", 0o755).map_err(Failure::at("make /workspace"))?;
    make_directory("/tmp", 0o1777).map_err(Failure::at("make /tmp"))?;
    open_root();
    // Where there is a network, the container engine has brought it up, and the guest may not.
    let _ = loopback::up();
    seal_devices().map_err(Failure::at("seal /dev"))?;
    egress::name_ourselves();
    let directory = |path: &str| {
        openat2(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), plain())
    };
    Ok(Built {
        devpts: directory("/dev/pts").map_err(Failure::at("open /dev/pts"))?,
        bottom: directory("/").map_err(Failure::at("open the root"))?,
        storage: None,
    })
}

/// Sets the root's usual mode where the image has no entry for it and the container engine chose 0555.
fn open_root() {
    const CHOSEN: u32 = 0o555;
    let mode = |path: &str| std::fs::metadata(path).map(|found| found.permissions().mode() & 0o7777);
    if mode("/").is_ok_and(|mode| mode == CHOSEN) {
        // If this fails, the mode comes from the image and stays.
        let _ = std::fs::set_permissions("/", std::fs::Permissions::from_mode(0o755));
    }
}

/// Keeps commands from changing `/dev`. The container engine's directory is writable and the guest may not remount
/// it, so the guest takes the ownership away from commands and has file operations refuse it.
fn seal_devices() -> io::Result<()> {
    let devices =
        openat2(CWD, "/dev", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), plain())?;
    let guest = (Some(Uid::from_raw(GUEST_ID)), Some(Gid::from_raw(GUEST_ID)));
    rustix::fs::fchown(&devices, guest.0, guest.1)?;
    files::seal(devices.as_fd())
}

fn plain() -> ResolveFlags {
    ResolveFlags::NO_SYMLINKS
}

/// Makes a directory at the top of the root, or accepts the directory that is there. Refuses anything else.
fn make_directory(path: &str, mode: u32) -> Result<(), Errno> {
    let made = match mkdirat(CWD, path, Mode::from_raw_mode(mode)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error),
    };
    let found =
        openat2(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), plain())?;
    if made {
        // `mkdirat` has applied the umask to the mode; set it in full.
        rustix::fs::fchmod(&found, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}

/// Opens the file that counts how often a limit was enforced, in the v1 or v2 tree. An image may have brought a
/// file of that name, so the file counts only if it is on a cgroup filesystem.
fn counter(version1: &str, version2: &str) -> Option<OwnedFd> {
    [version1, version2].into_iter().find_map(|name| {
        let path = format!("/sys/fs/cgroup/{name}");
        let file = openat2(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty(), plain()).ok()?;
        let kind = fstatfs(&file).ok()?.f_type as i64;
        matches!(kind, CGROUP | CGROUP2).then_some(file)
    })
}

/// Has the kernel kill commands before the guest when memory runs out: a container engine has one cgroup for both.
pub fn be_killed_first() {
    // Some kernels and container engines refuse this. The kernel then kills the largest process, which is never the
    // guest.
    let _ = std::fs::write("/proc/self/oom_score_adj", "900");
}

/// Makes this process's `/proc` files belong to its own user. Those of an opaque (non-dumpable) process belong to
/// the machine's root, which is who commands run as here: they could have the kernel kill the guest first when
/// memory runs out. Reading this process then takes its user, which no command can be, or capabilities that no
/// command has.
pub fn be_ones_own() -> io::Result<()> {
    // With a limit of 0 the kernel may still pipe a core dump to a program on the host; with 1 it writes none.
    setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) })?;
    Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}

/// Tells whether users here are the machine's users: the kernel's per-user counts are then shared with the machine.
pub fn has_machines_users() -> bool {
    const ALL_IDS: [&str; 3] = ["0", "0", "4294967295"];
    // If the map cannot be read, assume the worse case.
    std::fs::read_to_string("/proc/self/uid_map").map_or(true, |map| map.split_whitespace().eq(ALL_IDS))
}

fn stand(plan: &Plan, forker: &Forker) -> io::Result<GuestReport> {
    Ok(GuestReport {
        fenced: forker.fenced == Fenced::Yes,
        status: std::fs::read_to_string(format!("/proc/{}/status", forker.pid))?,
        uid_map: std::fs::read_to_string("/proc/self/uid_map")?,
        memory_counter: plan.memory_counter.is_some(),
        pids_counter: plan.pids_counter.is_some(),
        // The reactor fills this in.
        knows_user: false,
    })
}

fn tell(mut answer: &File, report: &Report) -> io::Result<()> {
    answer.write_all(&coracle_wire::encode(report).map_err(io::Error::other)?)
}
