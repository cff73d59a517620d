//! Borrows a user's rights for a request about files: while the request runs, its thread acts as that user.
//!
//! The guest may do more to files than any command, but its callers must get only what commands have. So each
//! request runs as the user it names, and the kernel decides. Only the thread changes its user, never the process.

use std::sync::OnceLock;
use std::time::Duration;

use coracle_sys::capability;
use coracle_sys::identity::{self, FileUser};
use coracle_sys::rustix::io::Errno;
use coracle_wire::{Acting, Fault, FaultCode};

use crate::users::{self, User};
use crate::weak::{self, Wall};

/// Capabilities that override file permissions: to change owners, read, write, search, and act as an owner.
const PAST_PERMISSIONS: u64 = 0b1_1111;
/// How soon the thread tries again to take its own rights back.
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// What is the same for all requests.
#[derive(Debug, Clone, Copy)]
pub struct RightsConfig {
    /// There is only one user, so a thread can act as no other.
    pub single_user: bool,
    /// The capabilities that commands of root keep.
    pub commands: u64,
    /// Keeps commands from reading the guest's memory, which the kernel may allow when a thread changes its user.
    pub hide: fn() -> std::io::Result<()>,
}

static CONFIG: OnceLock<RightsConfig> = OnceLock::new();

/// Stores the configuration, before the first request.
pub fn settle(config: RightsConfig) {
    let _ = CONFIG.set(config);
}

/// Another user's rights, on the thread that took them, until dropped.
#[derive(Debug)]
pub struct Borrowed {
    config: RightsConfig,
    /// The thread acts as another user, not only with fewer capabilities.
    foreign: bool,
    /// Rights belong to a thread: it must give them back where it took them.
    _of_this_thread: std::marker::PhantomData<*const ()>,
}

/// Takes the rights of a user's commands. Without a user to act for, the thread keeps the guest's rights.
pub fn assume(acting: Option<&Acting>) -> Result<Option<Borrowed>, Fault> {
    let Some(acting) = acting else { return Ok(None) };
    let config = CONFIG.get().copied().ok_or_else(unsettled)?;
    if weak::off(Wall::FileRights) {
        return Ok(None);
    }
    let user = find(acting)?;
    let foreign = (user.uid, user.gid) != (0, 0) || !user.groups.is_empty();
    if foreign && config.single_user {
        return Err(cannot_act_as(&user, Errno::PERM.into()));
    }
    // Made first, so that dropping it restores the guest's rights even if the next step fails.
    let borrowed = Borrowed { config, foreign, _of_this_thread: std::marker::PhantomData };
    let past = if user.uid == 0 { config.commands & PAST_PERMISSIONS } else { 0 };
    let capabilities = past | !PAST_PERMISSIONS;
    let theirs = FileUser { uid: user.uid, gid: user.gid, groups: &user.groups, capabilities };
    borrowed.act_as(theirs).map_err(|error| cannot_act_as(&user, error))?;
    Ok(Some(borrowed))
}

impl Borrowed {
    fn act_as(&self, user: FileUser<'_>) -> std::io::Result<()> {
        if !self.foreign {
            return capability::put_in_effect(user.capabilities);
        }
        let became = identity::act_as_file_user(user);
        (self.config.hide)()?;
        became
    }
}

impl Drop for Borrowed {
    /// Does not return before the thread has the guest's rights again: it serves other callers next. The kernel
    /// refuses only while it is out of memory.
    fn drop(&mut self) {
        let own = FileUser { uid: 0, gid: 0, groups: &[], capabilities: u64::MAX };
        while self.act_as(own).is_err() {
            std::thread::sleep(TRY_AGAIN);
        }
    }
}

fn find(acting: &Acting) -> Result<User, Fault> {
    users::find(acting.user.as_deref()).ok_or_else(|| {
        let name = acting.user.as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
        let message = format!("there is no user `{name}` in the sandbox");
        Fault { code: FaultCode::Invalid, message, errno: None }
    })
}

/// Refuses: without the configuration the thread has only the guest's own rights, which exceed any user's.
fn unsettled() -> Fault {
    let message =
        "could not act as a user: the guest does not know yet which rights commands have".to_owned();
    Fault { code: FaultCode::Internal, message, errno: None }
}

fn cannot_act_as(user: &User, error: std::io::Error) -> Fault {
    let message = format!("could not act as user {}:{}", user.uid, user.gid);
    Fault { code: FaultCode::Invalid, message, errno: error.raw_os_error() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_without_a_user_has_the_guests_own_rights() {
        assert!(assume(None).is_ok_and(|rights| rights.is_none()));
        // In this test process no boot has stored a configuration.
        let refused = assume(Some(&Acting { user: None })).map(|_| ()).map_err(|fault| fault.code);
        assert_eq!(refused, Err(FaultCode::Internal));
    }
}
