//! User and group ids, of the calling thread alone.
//!
//! Uses the raw system calls on purpose: libc's wrappers change every thread of the process, by signals.

use std::io;

fn check(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Becomes another user, with exactly these groups.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    set_groups(groups)?;
    // SAFETY: takes three numbers.
    check(unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) })?;
    // SAFETY: takes three numbers.
    check(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) })
}

/// Acts on files as another user, and keeps all other ids.
pub fn act_on_files_as(uid: u32, gid: u32) {
    // SAFETY: takes a number; the call reports the old id and cannot fail with the capability we hold.
    unsafe { libc::syscall(libc::SYS_setfsgid, gid) };
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_setfsuid, uid) };
}

/// The user a thread acts on files as, and the capabilities it has over files of others.
#[derive(Debug, Clone, Copy)]
pub struct FileUser<'a> {
    pub uid: u32,
    pub gid: u32,
    pub groups: &'a [u32],
    /// The effective capabilities, out of those the thread holds.
    pub capabilities: u64,
}

/// Makes the calling thread act on files as `user`. The thread keeps the capabilities it takes to come back.
///
/// On an error the thread may be half way: the caller has to change back, or stop using the thread. The kernel then
/// resets whether other processes may read this one, as with [`be_opaque`]; the caller has to set it again.
pub fn act_as_file_user(user: FileUser<'_>) -> io::Result<()> {
    set_groups(user.groups)?;
    act_on_files_as(user.uid, user.gid);
    if file_user() != (user.uid, user.gid) {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    // Last: a change from or to user 0 moves file capabilities out of or into effect.
    crate::capability::put_in_effect(user.capabilities)
}

/// Returns the user and group the calling thread acts on files as.
fn file_user() -> (u32, u32) {
    // SAFETY: takes a number. No user has this one, so the call changes nothing and reports the current id.
    let uid = unsafe { libc::syscall(libc::SYS_setfsuid, u32::MAX) };
    // SAFETY: as above.
    let gid = unsafe { libc::syscall(libc::SYS_setfsgid, u32::MAX) };
    (uid as u32, gid as u32)
}

fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: `groups` is a live slice of its stated length, which the kernel only reads.
    check(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })
}

/// Keeps other processes from tracing this one and reading it through `/proc`, and prevents core dumps.
pub fn be_opaque() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?)
}

/// Marks this process, and those it starts from now on, by a UTS namespace that has no other use.
pub fn be_marked() -> io::Result<()> {
    // SAFETY: takes a flag. A new namespace for the host's name changes nothing Rust code relies on.
    check(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUTS) })
}

/// Makes the thread's current cgroups the roots of the cgroups it sees.
pub fn hide_cgroups() -> io::Result<()> {
    // SAFETY: takes a flag. A new cgroup namespace changes what is shown, and no resource Rust code relies on.
    check(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_NEWCGROUP) })
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    /// All capabilities but those that override file permissions.
    const ORDINARY: u64 = !0b1_1111;

    #[test]
    fn a_thread_alone_acts_as_another_user_and_comes_back() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let path = std::env::temp_dir().join(format!("coracle-identity-{}", std::process::id()));
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).expect("a file can be made");
        let act = |uid, capabilities| {
            act_as_file_user(FileUser { uid, gid: uid, groups: &[], capabilities })
                .expect("root may act as any user");
            File::open(&path).is_ok()
        };

        let (foreign, back) = std::thread::scope(|scope| {
            let thread = scope.spawn(|| (act(64_321, ORDINARY), act(0, u64::MAX)));
            thread.join().expect("it does not panic")
        });

        assert!(!foreign && back);
        assert!(File::open(&path).is_ok(), "the other thread was changed, too");
        std::fs::remove_file(&path).expect("it is ours");
    }
}
