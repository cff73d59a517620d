//! Named places where a process may be killed by a test, to show that what is left behind can be cleaned up.
//!
//! Each stands between two steps of a verb, as `docs/threat-model.md` lists them. The shipped binary kills itself at
//! the one the composition root was told; otherwise reaching one costs a null check.

use std::fmt;
use std::sync::Arc;

/// Every point of the engine, in the order a life reaches them.
pub const CRASH_POINTS: &[&str] = &[
    CREATE_ROW_BEFORE,
    CREATE_ROW_AFTER,
    CREATE_PREPARE_AFTER,
    CREATE_BACKEND_AFTER,
    CREATE_PLACEMENT_AFTER,
    CREATE_KEEPER_AFTER,
    CREATE_READY_AFTER,
    EXEC_ADMIT_AFTER,
    EXEC_START_AFTER,
    EXEC_END_AFTER,
    TRANSFER_CHECK_AFTER,
    TRANSFER_ROW_AFTER,
    TRANSFER_FENCE_AFTER,
    KILL_CONFIRM_AFTER,
    RELEASE_CHECK_AFTER,
    RELEASE_ROW_AFTER,
    RELEASE_FENCE_AFTER,
    CLAIM_CHECK_AFTER,
    CLAIM_ROW_AFTER,
    CLAIM_FENCE_AFTER,
    NETWORK_ROW_AFTER,
    PAUSE_ROW_AFTER,
    PAUSE_FREEZE_AFTER,
    RESUME_THAW_AFTER,
    RESUME_ROW_AFTER,
    FORK_ROWS_AFTER,
    FORK_HOLD_AFTER,
    FORK_FILES_AFTER,
    FORK_CHILDREN_AFTER,
    REPLACE_CLOSE_AFTER,
    DESTROY_ROW_BEFORE,
    DESTROY_ROW_AFTER,
    DESTROY_LOGS_WRITTEN,
    DESTROY_LOGS_AFTER,
    DESTROY_BACKEND_AFTER,
    DESTROY_KEEPER_AFTER,
    DESTROY_END_AFTER,
];

/// The points of falling asleep and waking, in the order a sleeper reaches them.
pub const SLEEP_CRASH_POINTS: &[&str] = &[
    REST_BACKEND_AFTER,
    REST_ROW_AFTER,
    WAKE_ROW_AFTER,
    WAKE_BACKEND_AFTER,
    WAKE_KEEPER_AFTER,
    WAKE_READY_AFTER,
];

/// The points of fetching packages and installing them, in the order an open reaches them.
pub const INSTALL_CRASH_POINTS: &[&str] =
    &[INSTALL_DRAFT_AFTER, INSTALL_FILL_AFTER, INSTALL_SEAL_AFTER, INSTALL_ARCHIVE_AFTER];

/// The points of making a sandbox that works on a repository, and of taking back one that never became ready.
pub const REPO_CRASH_POINTS: &[&str] =
    &[CREATE_BRANCH_BEFORE, CREATE_BRANCH_AFTER, CREATE_CHECKOUT_AFTER, FAIL_BRANCH_AFTER];

/// The points of a purge, which no other story reaches.
pub const PURGE_CRASH_POINTS: &[&str] = &[PURGE_SANDBOXES_AFTER, PURGE_BACKENDS_AFTER];

pub(crate) const PURGE_SANDBOXES_AFTER: &str = "purge.sandboxes.after";
pub(crate) const PURGE_BACKENDS_AFTER: &str = "purge.backends.after";
pub(crate) const CREATE_ROW_BEFORE: &str = "create.row.before";
pub(crate) const CREATE_ROW_AFTER: &str = "create.row.after";
pub(crate) const CREATE_PREPARE_AFTER: &str = "create.prepare.after";
pub(crate) const CREATE_BACKEND_AFTER: &str = "create.backend.after";
pub(crate) const CREATE_PLACEMENT_AFTER: &str = "create.placement.after";
pub(crate) const CREATE_KEEPER_AFTER: &str = "create.keeper.after";
pub(crate) const CREATE_BRANCH_BEFORE: &str = "create.branch.before";
pub(crate) const CREATE_BRANCH_AFTER: &str = "create.branch.after";
pub(crate) const CREATE_CHECKOUT_AFTER: &str = "create.checkout.after";
pub(crate) const FAIL_BRANCH_AFTER: &str = "fail.branch.after";
pub(crate) const CREATE_READY_AFTER: &str = "create.ready.after";
pub(crate) const EXEC_ADMIT_AFTER: &str = "exec.admit.after";
pub(crate) const EXEC_START_AFTER: &str = "exec.start.after";
pub(crate) const EXEC_END_AFTER: &str = "exec.end.after";
pub(crate) const TRANSFER_CHECK_AFTER: &str = "transfer.check.after";
pub(crate) const TRANSFER_ROW_AFTER: &str = "transfer.row.after";
pub(crate) const TRANSFER_FENCE_AFTER: &str = "transfer.fence.after";
pub(crate) const KILL_CONFIRM_AFTER: &str = "kill.confirm.after";
pub(crate) const RELEASE_CHECK_AFTER: &str = "release.check.after";
pub(crate) const RELEASE_ROW_AFTER: &str = "release.row.after";
pub(crate) const RELEASE_FENCE_AFTER: &str = "release.fence.after";
pub(crate) const CLAIM_CHECK_AFTER: &str = "claim.check.after";
pub(crate) const CLAIM_ROW_AFTER: &str = "claim.row.after";
pub(crate) const CLAIM_FENCE_AFTER: &str = "claim.fence.after";
pub(crate) const NETWORK_ROW_AFTER: &str = "network.row.after";
pub(crate) const PAUSE_ROW_AFTER: &str = "pause.row.after";
pub(crate) const PAUSE_FREEZE_AFTER: &str = "pause.freeze.after";
pub(crate) const RESUME_THAW_AFTER: &str = "resume.thaw.after";
pub(crate) const RESUME_ROW_AFTER: &str = "resume.row.after";
pub(crate) const FORK_ROWS_AFTER: &str = "fork.rows.after";
pub(crate) const FORK_HOLD_AFTER: &str = "fork.hold.after";
pub(crate) const FORK_FILES_AFTER: &str = "fork.branch.after";
pub(crate) const FORK_CHILDREN_AFTER: &str = "fork.children.after";
pub(crate) const REPLACE_CLOSE_AFTER: &str = "replace.close.after";
pub(crate) const REST_BACKEND_AFTER: &str = "rest.backend.after";
pub(crate) const REST_ROW_AFTER: &str = "rest.row.after";
pub(crate) const WAKE_ROW_AFTER: &str = "wake.row.after";
pub(crate) const WAKE_BACKEND_AFTER: &str = "wake.backend.after";
pub(crate) const WAKE_KEEPER_AFTER: &str = "wake.keeper.after";
pub(crate) const WAKE_READY_AFTER: &str = "wake.ready.after";
pub(crate) const INSTALL_DRAFT_AFTER: &str = "install.draft.after";
pub(crate) const INSTALL_FILL_AFTER: &str = "install.fill.after";
pub(crate) const INSTALL_SEAL_AFTER: &str = "install.seal.after";
pub(crate) const INSTALL_ARCHIVE_AFTER: &str = "install.archive.after";
pub(crate) const DESTROY_ROW_BEFORE: &str = "destroy.row.before";
pub(crate) const DESTROY_ROW_AFTER: &str = "destroy.row.after";
pub(crate) const DESTROY_LOGS_WRITTEN: &str = "destroy.logs.written";
pub(crate) const DESTROY_LOGS_AFTER: &str = "destroy.logs.after";
pub(crate) const DESTROY_BACKEND_AFTER: &str = "destroy.backend.after";
pub(crate) const DESTROY_KEEPER_AFTER: &str = "destroy.keeper.after";
pub(crate) const DESTROY_END_AFTER: &str = "destroy.end.after";

type Hook = Arc<dyn Fn(&'static str) + Send + Sync>;

/// What happens at a point: nothing, unless a hook was given.
#[derive(Clone, Default)]
pub struct CrashPoints(Option<Hook>);

impl CrashPoints {
    /// Calls `hook` with the name of every point that is reached.
    pub fn calling(hook: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    pub(crate) fn at(&self, point: &'static str) {
        if let Some(hook) = &self.0 {
            hook(point);
        }
    }
}

impl fmt::Debug for CrashPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CrashPoints").field(&self.0.is_some()).finish()
    }
}
