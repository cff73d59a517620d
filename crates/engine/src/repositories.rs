//! The component for hosted repositories: which one a caller means, who may have it, and which branches are busy.

use std::collections::BTreeSet;
use std::sync::Arc;

use coracle_core::repo::{self, BranchName, RefRules, Repo, RepoName};
use coracle_core::{RepoId, Repos, Result};

use crate::{Caller, Records};

/// The repositories of the home, as callers see them.
#[derive(Debug)]
pub struct Repositories {
    repos: Arc<dyn Repos>,
    records: Arc<Records>,
}

impl Repositories {
    pub(crate) fn new(repos: Arc<dyn Repos>, records: Arc<Records>) -> Self {
        Self { repos, records }
    }

    /// Returns the port, for those who already know that a repository is their caller's.
    pub fn port(&self) -> &Arc<dyn Repos> {
        &self.repos
    }

    /// Returns the caller's repository of this name or id. One of others reads like one that is not there.
    pub fn find(&self, caller: &Caller, wanted: &str) -> Result<Repo> {
        let found = match RepoId::whole(wanted) {
            Some(id) => self.repos.find(&id)?.filter(|repo| sees(caller, repo)),
            None => match wanted.parse::<RepoName>() {
                Ok(name) => self.repos.named(caller.tenant.as_ref(), &name)?,
                Err(_) => None,
            },
        };
        found.ok_or_else(|| repo::unknown(wanted))
    }

    /// Returns the repositories the caller sees, by name.
    pub fn list(&self, caller: &Caller) -> Result<Vec<Repo>> {
        let mut repos = self.repos.list(caller.tenant.as_ref())?;
        repos.retain(|repo| sees(caller, repo));
        Ok(repos)
    }

    /// Makes an empty repository for the caller.
    pub fn add(&self, caller: &Caller, name: &RepoName) -> Result<Repo> {
        self.repos.add(caller.tenant.as_ref(), name, self.records.now())
    }

    /// Returns what clients of git may do to a repository's refs.
    pub fn rules(&self, repo: &Repo) -> Result<RefRules> {
        Ok(RefRules { busy: self.busy(repo)?, only: None })
    }

    /// Returns the branches that sandboxes work on.
    pub fn busy(&self, _repo: &Repo) -> Result<BTreeSet<BranchName>> {
        Ok(BTreeSet::new())
    }
}

/// Tells whether a caller may know that a repository exists. The home's own people see those of every tenant; a model at a
/// door they started does not.
fn sees(caller: &Caller, repo: &Repo) -> bool {
    (caller.tenant.is_none() && caller.ceiling.is_none()) || caller.tenant == repo.tenant
}
