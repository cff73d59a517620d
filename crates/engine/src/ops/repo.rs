//! Operations on hosted repositories.

pub mod add;
pub mod errand;
pub mod get;
pub mod list;
pub mod pull;
pub mod push;
pub mod remove;

use coracle_core::repo::{BranchName, Repo, RepoName};
use coracle_core::{RepoId, Result, TenantId, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Engine;

/// A repository, as callers see it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Shown {
    pub repo_id: RepoId,
    pub name: RepoName,
    /// The tenant that owns it. Absent for the home's own people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    pub created_at: Timestamp,
    /// The branch a clone starts on. It need not exist.
    pub default_branch: Option<BranchName>,
    /// How many branches there are.
    pub branches: usize,
    pub size_bytes: u64,
}

/// Returns what callers see of a repository.
fn shown(engine: &Engine, repo: &Repo) -> Result<Shown> {
    let port = engine.repositories().port();
    let heads = port.heads(&repo.id)?;
    Ok(Shown {
        repo_id: repo.id.clone(),
        name: repo.name.clone(),
        tenant: repo.tenant.clone(),
        created_at: repo.created_at,
        branches: heads.refs.iter().filter(|one| one.name.branch().is_some()).count(),
        default_branch: heads.default,
        size_bytes: port.size(&repo.id)?,
    })
}
