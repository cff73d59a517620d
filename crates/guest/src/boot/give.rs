//! Gives the writable places of a sandbox to the user that commands run as: the workspace, volumes and overlays.

use coracle_sys::rustix::fs::{CWD, Gid, Mode, OFlags, ResolveFlags, Uid, fchown, openat2};
use coracle_sys::rustix::io::Errno;

use super::Plan;
use crate::users::{self, User};

const WORKSPACE: &[u8] = b"/workspace";

/// Gives the workspace, and the top of every other writable place, to the user that commands run as. A directory of
/// the machine keeps its owner: where it must appear as this user's, the host maps it so.
pub fn give_places(plan: &Plan) {
    let Some(user) = users::find(plan.boot.user.as_deref()).filter(|_| !plan.is_single_user()) else {
        return;
    };
    let own = !plan.boot.mounts.iter().any(|mount| mount.target == WORKSPACE);
    // The workspace is made by root and belongs to root; a volume may have belonged to another user.
    let workspace = (own && user.uid != 0 && !plan.boot.wakes).then_some(WORKSPACE);
    let given = plan.boot.mounts.iter().filter(|mount| mount.given || mount.overlay);
    for place in workspace.into_iter().chain(given.map(|mount| mount.target.as_slice())) {
        // This fails on a read-only place, which commands cannot write to anyway.
        let _ = give(place, &user);
    }
}

/// Follows no link: the image may have brought some.
fn give(place: &[u8], user: &User) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat2(CWD, place, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    fchown(&directory, Some(uid), Some(gid))
}
