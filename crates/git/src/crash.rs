//! Named places where a test may kill this process, to show that what is left behind does no harm.

/// Called with the name of each point that is reached.
pub type CrashAt = fn(&'static str);

/// Every point, in the order a repository's life reaches them.
pub const CRASH_POINTS: &[&str] = &[
    ADD_DRAFT_AFTER,
    ADD_FILL_AFTER,
    ADD_RENAME_AFTER,
    RECEIVE_GIT_AFTER,
    RECEIVE_SYNC_AFTER,
    REMOVE_RENAME_AFTER,
];

pub(crate) const ADD_DRAFT_AFTER: &str = "repo.add.draft.after";
pub(crate) const ADD_FILL_AFTER: &str = "repo.add.fill.after";
pub(crate) const ADD_RENAME_AFTER: &str = "repo.add.rename.after";
pub(crate) const REMOVE_RENAME_AFTER: &str = "repo.remove.rename.after";
pub(crate) const RECEIVE_GIT_AFTER: &str = "repo.receive.git.after";
pub(crate) const RECEIVE_SYNC_AFTER: &str = "repo.receive.sync.after";
