//! Builds the sandbox's filesystem: an overlay over the image, `/proc` and `/dev`, the workspace, the directories
//! the caller mounts, and nothing else.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use coracle_sys::mount::{self, Attributes};
use coracle_sys::rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat2, stat};
use coracle_sys::rustix::io::Errno;
use coracle_sys::rustix::process::{chdir, chroot, fchdir};
use coracle_wire::{Boot, MountPoint};

use super::plan::Plan;
use super::storage::Storage;
use super::{Failure, devices, mask};
use crate::users;
use crate::weak::{self, Wall};

/// The kernel accepts no longer value for a mount option.
const OPTION_MAX: usize = 255;
const WORKSPACE: &str = "workspace";

/// The directory at the bottom that the root is mounted on, and the one beside it in which restack builds another
/// root.
pub const ROOT: &str = "root";
pub const BENCH: &str = "bench";

/// A finished root.
#[derive(Debug)]
pub struct Built {
    /// The root of the terminals' filesystem.
    pub devpts: OwnedFd,
    /// The directory that every root of the sandbox is below.
    pub bottom: OwnedFd,
    /// The top of the storage, where the sandbox sleeps when this guest has ended.
    pub storage: Option<OwnedFd>,
}

/// Builds the tree and makes it the root. Asks the host on the way if owners must be mapped.
pub fn build(plan: &Plan, host: &UnixStream) -> Result<Built, Failure> {
    mount::make_private().map_err(Failure::at("make mounts private"))?;
    let machine_devices = match weak::off(Wall::Devices) {
        false => None,
        true => Some(mount::copy("/dev".as_ref()).map_err(Failure::at("open the machine's devices"))?),
    };
    enter_scratch()?;
    let storage = Storage::bring(plan)?;
    let top = (plan.boot.sleeps && plan.boot.memory.is_none()).then(|| storage.top()).transpose()?;
    let bottom = make_bottom()?;
    let root = overlay(&storage, &plan.layers, "root")?;
    attach_root(root.as_fd(), bottom.as_fd())?;
    attach_overlays(&storage, &plan.boot.overlays, &plan.overlays, root.as_fd())?;
    if plan.boot.asks_owner {
        tell_owner(plan, root.as_fd(), host).map_err(Failure::at("tell the host whose the workspace is"))?;
    }
    if weak::off(Wall::Procfs) {
        let _ = std::fs::write("bottom/root/proc/sys/user/max_user_namespaces", "0");
    }
    let hidepid = if weak::off(Wall::Hidepid) { "off" } else { "invisible" };
    let proc =
        mount::make("proc", &[("hidepid", Some(hidepid))], mount::plain() | Attributes::MOUNT_ATTR_NOEXEC)
            .map_err(Failure::at("make /proc"))?;
    attach(proc.as_fd(), root.as_fd(), "proc")?;
    let devpts = devices::build(plan, root.as_fd())?;
    if let Some(devices) = machine_devices {
        attach(devices.as_fd(), root.as_fd(), "dev")?;
    }
    attach(workspace(&storage)?.as_fd(), root.as_fd(), "workspace")?;
    for (index, (point, source)) in plan.boot.mounts.iter().zip(&plan.mounts).enumerate() {
        bring_in(&storage, point, source, index, root.as_fd())?;
    }

    let bottom = settle(bottom, root)?;
    if !plan.boot.wakes {
        name_localhost();
    }
    mask::apply(plan.boot.shm_bytes)?;
    Ok(Built { devpts, bottom, storage: top })
}

/// Tells the host which user commands run as, and waits until the host has mapped its directories to that user.
/// Reports root for a user that is not in the image's `passwd`: no command can be started as that user either.
fn tell_owner(plan: &Plan, root: BorrowedFd<'_>, mut host: &UnixStream) -> io::Result<()> {
    let user = users::find_in(root, plan.boot.user.as_deref());
    let (uid, gid) = user.map_or((0, 0), |user| (user.uid, user.gid));
    let mut word = vec![Boot::OWNER];
    word.extend(uid.to_le_bytes());
    word.extend(gid.to_le_bytes());
    host.write_all(&word)?;
    host.read_exact(&mut [0])
}

/// Makes the bottom of the sandbox's tree: two empty read-only directories. Landlock's rule is tied to the bottom,
/// not to the root mounted on it, so that restack can replace the root later.
fn make_bottom() -> Result<OwnedFd, Failure> {
    const BOTTOM: &str = "bottom";
    make_directory(BOTTOM)?;
    make_directory(&format!("{BOTTOM}/{ROOT}"))?;
    make_directory(&format!("{BOTTOM}/{BENCH}"))?;
    let bottom = mount::copy(BOTTOM.as_ref()).map_err(Failure::at("copy the bottom"))?;
    mount::set(bottom.as_fd(), mount::plain() | Attributes::MOUNT_ATTR_RDONLY, None)
        .map_err(Failure::at("make the bottom read-only"))?;
    mount::attach(bottom.as_fd(), BOTTOM).map_err(Failure::at("attach the bottom"))?;
    Ok(bottom)
}

fn attach_root(root: BorrowedFd<'_>, bottom: BorrowedFd<'_>) -> Result<(), Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let place = openat2(bottom, ROOT, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(Failure::at("open the root's place"))?;
    mount::attach_onto(root, place.as_fd()).map_err(Failure::at("attach the root"))
}

/// Mounts the directories that get an overlay of their own. Lower layers of the same name make one overlay, the
/// topmost first.
pub fn attach_overlays(
    storage: &Storage,
    names: &[String],
    lowers: &[OwnedFd],
    root: BorrowedFd<'_>,
) -> Result<(), Failure> {
    let mut rest = lowers;
    for alike in names.chunk_by(|one, next| one == next) {
        let Some((layers, others)) = rest.split_at_checked(alike.len()) else { break };
        rest = others;
        let (Some(name), Some(lowest)) = (alike.first(), layers.last()) else { break };
        if weak::off(Wall::Layers) {
            attach(lowest.as_fd(), root, name)?;
            continue;
        }
        let layer = overlay(storage, layers, name)?;
        attach(layer.as_fd(), root, name)?;
    }
    Ok(())
}

/// Returns the workspace to mount: a plain directory, or an overlay over the files it starts from.
pub fn workspace(storage: &Storage) -> Result<OwnedFd, Failure> {
    match storage.is_fresh() {
        true => storage.make_plain(WORKSPACE),
        false => overlay(storage, &[], WORKSPACE),
    }
}

/// Leaves the machine's root and makes ours the root. Returns the directory that everything is below from now on.
fn settle(bottom: OwnedFd, root: OwnedFd) -> Result<OwnedFd, Failure> {
    let enter = |place: &OwnedFd| fchdir(place).map_err(Failure::at("enter the root"));
    let change = |path: &str| chroot(path).map_err(Failure::at("make the root the root"));
    if weak::off(Wall::Pivot) {
        enter(&root)?;
        change(".")?;
        check_nothing_is_behind()?;
        return Ok(root);
    }
    // Unless the root is the mount namespace's own, the kernel refuses to create user namespaces: one more wall.
    let lowest = if weak::off(Wall::Nesting) { root } else { bottom };
    enter(&lowest)?;
    mount::pivot().map_err(Failure::at("make the root the root"))?;
    check_nothing_is_behind()?;
    if !weak::off(Wall::Nesting) {
        change(ROOT)?;
        chdir("/").map_err(Failure::at("enter the root"))?;
    }
    Ok(lowest)
}

/// Fails if the machine's root can still be reached from ours.
fn check_nothing_is_behind() -> Result<(), Failure> {
    let identity = |path: &str| {
        stat(path).map(|found| (found.st_dev, found.st_ino)).map_err(Failure::at("look behind the root"))
    };
    match identity("/")? == identity("/..")? {
        true => Ok(()),
        false => Err(Failure::at("leave the machine's root")(Errno::BUSY)),
    }
}

/// Mounts a directory of the caller's at the place the caller chose.
fn bring_in(
    storage: &Storage,
    point: &MountPoint,
    source: &OwnedFd,
    index: usize,
    root: BorrowedFd<'_>,
) -> Result<(), Failure> {
    let target = String::from_utf8_lossy(&point.target);
    let name = target.trim_start_matches('/');
    if !point.overlay {
        return attach(source.as_fd(), root, name);
    }
    let layer = overlay(storage, std::slice::from_ref(source), &format!("mount-{index}"))?;
    attach(layer.as_fd(), root, name)
}

/// Mounts one detached filesystem on a directory of the new root. Refuses links on the way: the image or an earlier
/// command may have put them there.
pub fn attach(layer: BorrowedFd<'_>, root: BorrowedFd<'_>, name: &str) -> Result<(), Failure> {
    let target = make_target(root, name).map_err(Failure::at(&format!("find /{name} in the image")))?;
    mount::attach_onto(layer, target.as_fd()).map_err(Failure::at(&format!("mount /{name}")))
}

/// Opens a directory of the new root. Makes it and its parents if they are missing.
fn make_target(root: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    match open_target(root, name) {
        Err(Errno::NOENT) => {}
        target => return target,
    }
    let ends = name.match_indices('/').map(|(end, _)| end).chain([name.len()]);
    for end in ends {
        let parent = match name[..end].rsplit_once('/') {
            Some((parent, _)) => open_target(root, parent)?,
            None => open_target(root, ".")?,
        };
        let last = name[..end].rsplit('/').next().unwrap_or_default();
        match mkdirat(&parent, last, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    open_target(root, name)
}

fn open_target(root: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let within = match weak::off(Wall::Targets) {
        false => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        true => ResolveFlags::empty(),
    };
    openat2(root, name, flags, Mode::empty(), within)
}

/// Gives `localhost` an address where the image leaves that to the container runtime, as most images do.
fn name_localhost() {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    // A file mounted there belongs to the caller; leave it alone.
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    // An image without `/etc` needs no `/etc/hosts`.
    if let Ok(file) = openat2(CWD, "/etc/hosts", flags, Mode::from_raw_mode(0o644), how) {
        let _ =
            coracle_sys::rustix::io::write(&file, b"127.0.0.1\tlocalhost sandbox\n::1\tlocalhost sandbox\n");
    }
}

/// Covers `/dev`, which every machine has, with a small filesystem to put layers in. It goes away with the old
/// root. Mounted on the root itself it would go away in the root's place, and leave the machine's files behind
/// `/..`.
fn enter_scratch() -> Result<(), Failure> {
    let scratch = mount::make("tmpfs", &[("mode", Some("0700")), ("size", Some("1m"))], mount::plain())
        .map_err(Failure::at("make a scratch mount"))?;
    mount::attach(scratch.as_fd(), "/dev").map_err(Failure::at("attach the scratch mount"))?;
    fchdir(&scratch).map_err(Failure::at("enter the scratch mount"))
}

pub fn make_directory(name: &str) -> Result<(), Failure> {
    mkdirat(CWD, name, Mode::RWXU).map_err(Failure::at("make a scratch directory"))
}

/// Makes an overlay. From top to bottom: an upper layer called `name` in the storage, the layers of that name the
/// storage starts from, then `layers`, the topmost first. We choose all names, so none can smuggle in a mount
/// option.
pub fn overlay(storage: &Storage, layers: &[OwnedFd], name: &str) -> Result<OwnedFd, Failure> {
    let frozen = storage.layers(name)?;
    let mut lowers = Vec::with_capacity(frozen.len() + layers.len());
    for (index, layer) in frozen.iter().chain(layers).enumerate() {
        let lower = format!("{name}.{index}");
        make_directory(&lower)?;
        mount::attach(layer.as_fd(), &lower).map_err(Failure::at(&format!("attach {lower}")))?;
        lowers.push(lower);
    }
    let (upper, work) = storage.make_upper(name, frozen.first())?;
    let whole = lowers.join(":");
    // Newer kernels take any number of layers, one option each; older ones take what fits into one option value.
    let mut options: Vec<(&str, Option<&str>)> = match whole.len() <= OPTION_MAX {
        true => vec![("lowerdir", Some(&whole))],
        false => lowers.iter().map(|lower| ("lowerdir+", Some(lower.as_str()))).collect(),
    };
    options.extend([
        ("upperdir", Some(upper.as_str())),
        ("workdir", Some(work.as_str())),
        ("userxattr", None),
    ]);
    if !storage.syncs() {
        // Nothing here has to survive a power cut, and unmounting must not sync the host's disk.
        options.push(("volatile", None));
    }
    let attributes = if weak::off(Wall::Attributes) { Attributes::empty() } else { mount::plain() };
    mount::make("overlay", &options, attributes).map_err(Failure::at(&format!("overlay {name}")))
}
