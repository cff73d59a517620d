//! Hosted repositories: bare repositories in the home, and git's protocol for them.
//!
//! Knows nothing of sandboxes. The only place that runs git on the host, and only on repositories that nothing but this git has
//! written: objects and refs enter by `receive-pack` alone, which keeps them apart until it has checked them.

pub mod crash;
mod durable;
pub mod porter;
mod shelf;

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use coracle_core::clock::Timestamp;
use coracle_core::error::{Error, Kind, Result};
use coracle_core::ids::{RepoId, TenantId};
use coracle_core::repo::{BranchName, Heads, Pushed, RefChange, Repo, RepoName, Serving};
use coracle_core::{Cancel, Repos};

pub use self::crash::{CRASH_POINTS, CrashAt};
use self::shelf::Shelf;

/// The repositories of a home.
#[derive(Debug)]
pub struct HostedRepos {
    shelf: Shelf,
}

impl HostedRepos {
    /// Keeps repositories in this directory, which is made when the first is.
    pub fn new(directory: PathBuf, crash: CrashAt) -> Self {
        Self { shelf: Shelf::at(directory, crash) }
    }
}

impl Repos for HostedRepos {
    fn probe(&self) -> Result<String> {
        Err(unfinished())
    }

    fn add(&self, tenant: Option<&TenantId>, name: &RepoName, now: Timestamp) -> Result<Repo> {
        self.shelf.add(tenant, name, now)
    }

    fn list(&self, tenant: Option<&TenantId>) -> Result<Vec<Repo>> {
        self.shelf.list(tenant)
    }

    fn named(&self, tenant: Option<&TenantId>, name: &RepoName) -> Result<Option<Repo>> {
        self.shelf.named(tenant, name)
    }

    fn find(&self, id: &RepoId) -> Result<Option<Repo>> {
        self.shelf.find(id)
    }

    fn remove(&self, id: &RepoId) -> Result<()> {
        self.shelf.remove(id)
    }

    fn heads(&self, _id: &RepoId) -> Result<Heads> {
        Err(unfinished())
    }

    fn receive(&self, _: &RepoId, _: &[RefChange], _: Option<OwnedFd>, _: &Cancel) -> Result<()> {
        Err(unfinished())
    }

    fn set_default(&self, id: &RepoId, branch: &BranchName) -> Result<()> {
        self.shelf.set_default(id, branch)
    }

    fn serve(&self, _: &RepoId, _: &Serving, _: OwnedFd, _: OwnedFd, _: &Cancel) -> Result<Vec<Pushed>> {
        Err(unfinished())
    }

    fn size(&self, id: &RepoId) -> Result<u64> {
        self.shelf.size(id)
    }

    fn remains(&self) -> Result<Vec<String>> {
        let remains = self.shelf.remains()?;
        Ok(remains.iter().map(|path| path.display().to_string()).collect())
    }

    fn sweep(&self) -> Result<usize> {
        self.shelf.sweep()
    }
}

fn unfinished() -> Error {
    Error::new(Kind::Unsupported, "repositories are not served yet")
}
