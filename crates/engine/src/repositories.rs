//! The component for hosted repositories: which one a caller means, who may have it, and which branches are busy.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use coracle_core::repo::{
    self, BranchName, Phase, Protocol, Pushed, RefEnd, RefRules, Repo, RepoName, Service, Serving,
};
use coracle_core::store::Which;
use coracle_core::{Cancel, Error, Kind, RepoId, Repos, Result};

use crate::{Caller, Records};

/// Each takes a directory that every listing reads.
const TENANT_MAX: usize = 1000;

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
        self.admit(caller)?;
        self.repos.add(caller.tenant.as_ref(), name, self.records.now())
    }

    /// Refuses a tenant more repositories than it may have.
    fn admit(&self, caller: &Caller) -> Result<()> {
        let Some(tenant) = &caller.tenant else { return Ok(()) };
        match self.repos.list(Some(tenant))?.len() < TENANT_MAX {
            true => Ok(()),
            false => Err(Error::new(
                Kind::LimitExceeded,
                format!("a tenant has at most {TENANT_MAX} repositories"),
            )
            .hint("remove some first: `coracle repo remove`")),
        }
    }

    /// Makes a repository for the caller with what a bundle has.
    pub fn add_from(
        &self,
        caller: &Caller,
        name: &RepoName,
        bundle: OwnedFd,
        cancel: &Cancel,
    ) -> Result<Repo> {
        self.admit(caller)?;
        self.repos.add_from(caller.tenant.as_ref(), name, self.records.now(), bundle, cancel)
    }

    /// Brings a repository forward to what a bundle has.
    pub fn update_from(&self, repo: &Repo, bundle: OwnedFd, cancel: &Cancel) -> Result<Vec<Pushed>> {
        self.repos.update_from(&repo.id, bundle, &self.rules(repo)?, cancel)
    }

    /// Serves a client of git that is the caller's. Returns how many refs it has changed.
    pub fn serve(
        &self,
        repo: &Repo,
        (service, protocol, phase): (Service, Protocol, Phase),
        input: OwnedFd,
        output: OwnedFd,
        cancel: &Cancel,
    ) -> Result<usize> {
        let rules = match service {
            Service::UploadPack => RefRules::default(),
            Service::ReceivePack => self.rules(repo)?,
        };
        let serving = Serving { service, protocol, phase, rules };
        let pushed = self.repos.serve(&repo.id, &serving, input, output, cancel)?;
        Ok(pushed.iter().filter(|one| one.end == RefEnd::Done).count())
    }

    /// Returns what clients of git may do to a repository's refs.
    pub fn rules(&self, repo: &Repo) -> Result<RefRules> {
        Ok(RefRules { busy: self.busy(repo)?, only: None })
    }

    /// Returns the branches that sandboxes work on.
    pub fn busy(&self, repo: &Repo) -> Result<BTreeSet<BranchName>> {
        let live = self.records.store().list(Which::Live)?;
        let places = live.into_iter().filter_map(|record| record.repo);
        Ok(places.filter(|place| place.repo_id == repo.id).map(|place| place.branch).collect())
    }
}

/// Tells whether a caller may know that a repository exists. The home's own people see those of every tenant; a model at a
/// door they started does not.
fn sees(caller: &Caller, repo: &Repo) -> bool {
    (caller.tenant.is_none() && caller.ceiling.is_none()) || caller.tenant == repo.tenant
}
