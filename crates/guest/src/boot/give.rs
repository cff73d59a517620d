//! Whose the places are that a sandbox may write to: the workspace, volumes, and what is written over a directory.

use coracle_sys::rustix::fs::{CWD, Gid, Mode, OFlags, ResolveFlags, Uid, fchown, openat2};
use coracle_sys::rustix::io::Errno;

use super::Plan;
use crate::users::{self, User};

const WORKSPACE: &[u8] = b"/workspace";

/// Gives the workspace to the user commands run as, and the tops of what else the sandbox may write to. A directory of the
/// machine stays whose it is: where that has to be this user, the host shows it so.
pub fn give_places(plan: &Plan) {
    let Some(user) = users::find(plan.boot.user.as_deref()).filter(|_| !plan.is_single_user()) else {
        return;
    };
    let own = !plan.boot.mounts.iter().any(|mount| mount.target == WORKSPACE);
    // Made by root for root; a volume may have been another's.
    let workspace = (own && user.uid != 0).then_some(WORKSPACE);
    let given = plan.boot.mounts.iter().filter(|mount| mount.given || mount.overlay);
    for place in workspace.into_iter().chain(given.map(|mount| mount.target.as_slice())) {
        // What is read-only is not written to by them either.
        let _ = give(place, &user);
    }
}

/// No link is followed: the image may have brought some.
fn give(place: &[u8], user: &User) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat2(CWD, place, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    fchown(&directory, Some(uid), Some(gid))
}
