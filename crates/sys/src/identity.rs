//! User and group ids of the calling thread alone.
//!
//! The raw calls are used on purpose: libc's wrappers change every thread of the process, by signals.

use std::io;

fn check(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Becomes another user, with exactly these groups.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: `groups` is a live slice of its stated length, which the kernel only reads.
    check(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })?;
    // SAFETY: takes three numbers.
    check(unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) })?;
    // SAFETY: takes three numbers.
    check(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) })
}

/// Acts on files as another user, and as nothing else.
pub fn act_on_files_as(uid: u32, gid: u32) {
    // SAFETY: takes a number; the call reports the old id and cannot fail with the capability we hold.
    unsafe { libc::syscall(libc::SYS_setfsgid, gid) };
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_setfsuid, uid) };
}

/// Keeps other processes from tracing this one or reading it through `/proc`, and core dumps away.
pub fn be_opaque() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?)
}

/// Marks this process and those it starts from now on by a namespace of their own, which has no other use.
pub fn be_marked() -> io::Result<()> {
    // SAFETY: takes a flag. A new namespace for the host's name changes nothing Rust code relies on.
    check(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUTS) })
}

/// Makes the cgroups this thread is in now the roots of what it sees of cgroups.
pub fn hide_cgroups() -> io::Result<()> {
    // SAFETY: takes a flag. A new cgroup namespace changes what is shown, and no resource Rust code relies on.
    check(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_NEWCGROUP) })
}
