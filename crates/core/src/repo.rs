//! Hosted repositories: their words, and the port to where they are kept.

mod name;
mod oid;
mod place;
mod serving;

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::name::{BranchName, RefName, RepoName};
pub use self::oid::Oid;
pub use self::place::{Author, RepoChoice, RepoPlace, RepoPolicy, base, branch_for, is_free};
pub use self::serving::{Phase, Protocol, Pushed, RefEnd, RefRules, Service, Serving};
use crate::cancel::Cancel;
use crate::clock::Timestamp;
use crate::error::{Error, Kind, Result};
use crate::ids::{RepoId, TenantId};

/// One hosted repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repo {
    #[serde(rename = "repo_id")]
    pub id: RepoId,
    pub name: RepoName,
    /// The tenant that owns it. Absent for the home's own people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    pub created_at: Timestamp,
}

/// A branch or a tag, and the object it leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ref {
    pub name: RefName,
    pub target: Oid,
}

/// One change of a ref, by compare-and-swap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefChange {
    pub name: RefName,
    /// What it leads to now; absent if there must be none.
    pub old: Option<Oid>,
    /// What it shall lead to; absent to delete it.
    pub new: Option<Oid>,
}

/// Where a repository stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heads {
    /// The branch a clone starts on; it need not exist.
    pub default: Option<BranchName>,
    /// All refs below `refs/heads/` and `refs/tags/`, by name.
    pub refs: Vec<Ref>,
}

impl Heads {
    /// Returns what a branch leads to.
    pub fn branch(&self, name: &BranchName) -> Option<&Oid> {
        let full = name.full();
        self.refs.iter().find(|one| one.name == full).map(|one| &one.target)
    }

    /// Returns the names of all branches.
    pub fn branches(&self) -> impl Iterator<Item = BranchName> {
        self.refs.iter().filter_map(|one| one.name.branch())
    }
}

/// Keeps repositories and speaks git's protocol for them. Safe to use from many threads and processes at once.
///
/// A change that was acknowledged survives power loss. After a crash each ref of one that was not is as before or as after,
/// and a repository is there with all that was imported, or not at all.
pub trait Repos: fmt::Debug + Send + Sync {
    /// Returns the version of the git that serves them, or `not_available` with the reason why none can.
    fn probe(&self) -> Result<String>;

    /// Makes an empty repository. Fails with `conflict` if the tenant has one of this name; of any number of callers with
    /// one name exactly one gets it.
    fn add(&self, tenant: Option<&TenantId>, name: &RepoName, now: Timestamp) -> Result<Repo>;

    /// Makes a repository with the branches and tags of a git bundle. All of it is there at once, or nothing.
    fn add_from(
        &self,
        tenant: Option<&TenantId>,
        name: &RepoName,
        now: Timestamp,
        bundle: OwnedFd,
        cancel: &Cancel,
    ) -> Result<Repo>;

    /// Takes in the objects of a git bundle, makes the branches and tags it has that are missing, and moves branches forward.
    /// Returns what became of each ref that differs; a branch that would be rewound and a tag that would move are refused.
    fn update_from(
        &self,
        id: &RepoId,
        bundle: OwnedFd,
        rules: &RefRules,
        cancel: &Cancel,
    ) -> Result<Vec<Pushed>>;

    /// Returns repositories by name: a tenant's, or all if absent.
    fn list(&self, tenant: Option<&TenantId>) -> Result<Vec<Repo>>;

    /// Returns the tenant's repository of this name. Without a tenant it is that of the home's own people.
    fn named(&self, tenant: Option<&TenantId>, name: &RepoName) -> Result<Option<Repo>>;

    /// Returns the repository with this id, of any tenant.
    fn find(&self, id: &RepoId) -> Result<Option<Repo>>;

    /// Removes a repository with all that is in it, at once: clients it serves just now are cut off. Fails with `not_found` if there
    /// is none.
    fn remove(&self, id: &RepoId) -> Result<()>;

    /// Returns branches and tags, and the default branch.
    fn heads(&self, id: &RepoId) -> Result<Heads>;

    /// Changes refs, all or none. Fails with `conflict` if one does not lead where the change expects it, or its name stands in
    /// the way of another's, and with `invalid` if a new target or what it needs is not in the repository.
    fn change_refs(&self, id: &RepoId, changes: &[RefChange]) -> Result<()> {
        self.receive(id, changes, None, &Cancel::default())
    }

    /// Does the same, and first takes in the objects of a pack. The pack is checked before any of it counts; of a refused one
    /// nothing stays.
    fn receive(
        &self,
        id: &RepoId,
        changes: &[RefChange],
        pack: Option<OwnedFd>,
        cancel: &Cancel,
    ) -> Result<()>;

    /// Makes a branch the default.
    fn set_default(&self, id: &RepoId, branch: &BranchName) -> Result<()>;

    /// Serves one client of git until it is done: reads what it sends from `input` and writes the answer to `output`. Both
    /// may be the same socket. Returns what a push has changed, in the order the client named it; nothing for a fetch.
    ///
    /// A refused ref is no error: the client gets it from the report, and the others of the push go through.
    fn serve(
        &self,
        id: &RepoId,
        serving: &Serving,
        input: OwnedFd,
        output: OwnedFd,
        cancel: &Cancel,
    ) -> Result<Vec<Pushed>>;

    /// Returns the directory of the bare repository, for a program that reads it in a sandbox.
    fn directory(&self, id: &RepoId) -> Result<PathBuf>;

    /// Returns how many bytes a repository takes.
    fn size(&self, id: &RepoId) -> Result<u64>;

    /// Returns what a crash left half made or half removed.
    fn remains(&self) -> Result<Vec<String>>;

    /// Removes that. Returns how many repositories.
    fn sweep(&self) -> Result<usize>;
}

/// Returns the error for a repository that is not there, or not the caller's: both read alike.
pub fn unknown(wanted: &str) -> Error {
    let shown: String = wanted.chars().take(128).collect();
    Error::new(Kind::NotFound, format!("there is no repository `{shown}`"))
        .hint("`coracle repo list` shows those there are")
        .detail("repo", shown)
}
