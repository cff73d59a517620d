//! Mounts as descriptors: made detached, given their attributes, then attached. Never mounts by a path that an
//! agent could have put there.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_change,
    move_mount, open_tree, unmount,
};

pub use rustix::mount::MountAttrFlags as Attributes;

/// Makes a new, detached filesystem. An option without a value is a flag.
pub fn make(kind: &str, options: &[(&str, Option<&str>)], attributes: Attributes) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        match value {
            Some(value) => fsconfig_set_string(context.as_fd(), *name, *value)?,
            None => fsconfig_set_flag(context.as_fd(), *name)?,
        }
    }
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Returns a detached copy of the mount at `path`, without the mounts below it.
pub fn copy(path: &std::path::Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(open_tree(CWD, path, flags)?)
}

/// Returns a detached copy of the mount a descriptor points at.
pub fn copy_from(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(descriptor, "", flags)?)
}

/// Returns a detached copy of the mount a descriptor points at, with all mounts below it.
pub fn copy_tree(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(descriptor, "", flags)?)
}

/// Unmounts `path`, with all mounts below it.
pub fn detach(path: &str) -> io::Result<()> {
    Ok(unmount(path, UnmountFlags::DETACH)?)
}

/// Sets the attributes of a mount and makes it private, so that mounts on it do not show elsewhere. With a user
/// namespace, maps the owners of its files to that namespace's ids.
pub fn set(mount: BorrowedFd<'_>, attributes: Attributes, ids: Option<BorrowedFd<'_>>) -> io::Result<()> {
    // `struct mount_attr`: set, clear, propagation, userns_fd.
    const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;
    // A copy of a shared mount is shared too: what is mounted on it later would show on the machine.
    const MS_PRIVATE: u64 = 1 << 18;
    let idmap = if ids.is_some() { MOUNT_ATTR_IDMAP } else { 0 };
    let request: [u64; 4] =
        [u64::from(attributes.bits()) | idmap, 0, MS_PRIVATE, ids.map_or(0, |ids| ids.as_raw_fd() as u64)];
    // SAFETY: the path is a terminated empty string, and `request` is a live `mount_attr` of its stated size; the
    // kernel reads both.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const request,
            size_of_val(&request),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Attaches a mount at `path`, even if it is attached elsewhere now.
pub fn attach(mount: BorrowedFd<'_>, path: &str) -> io::Result<()> {
    Ok(move_mount(mount, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Attaches a detached mount onto the file or directory a descriptor points at.
pub fn attach_onto(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, "", target, "", flags)?)
}

/// Keeps mounts made here from showing elsewhere, and mounts made elsewhere from showing here.
pub fn make_private() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// Makes the current directory, a mount, the root, and unmounts the old root.
pub fn pivot() -> io::Result<()> {
    // Both names are the same directory: the old root ends up on top of the new one, and is unmounted there.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

/// The attributes every mount in a sandbox has.
pub fn plain() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV
}
