//! Hosted repositories: bare repositories in the home, and git's protocol for them.
//!
//! Knows nothing of sandboxes. The only place that runs git on the host, and only on repositories that nothing but this git has
//! written: objects and refs enter by `receive-pack` alone, which keeps them apart until it has checked them.

pub mod bundle;
pub mod crash;
mod durable;
mod feed;
mod import;
mod leftovers;
pub mod pkt;
pub mod porter;
mod program;
pub mod push;
mod receive;
mod run;
mod serve;
mod shelf;

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::OnceLock;

use coracle_core::clock::Timestamp;
use coracle_core::error::Result;
use coracle_core::ids::{RepoId, TenantId};
use coracle_core::repo::{BranchName, Heads, Pushed, RefChange, RefRules, Repo, RepoName, Serving};
use coracle_core::{Cancel, Repos};

pub use self::crash::{CRASH_POINTS, CrashAt};
use self::import::Import;
use self::program::Program;
use self::receive::{By, Receiving, Rewinds};
use self::serve::Client;
use self::shelf::Shelf;

/// The repositories of a home.
#[derive(Debug)]
pub struct HostedRepos {
    shelf: Shelf,
    settings: Settings,
    program: OnceLock<Program>,
}

/// What is settled for all repositories.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where git is looked for, as in `PATH`.
    pub search: OsString,
    /// The most bytes one push may bring.
    pub push_max: u64,
    pub crash: CrashAt,
}

impl HostedRepos {
    /// Keeps repositories in this directory, which is made when the first is.
    pub fn new(directory: PathBuf, settings: Settings) -> Self {
        Self { shelf: Shelf::at(directory, settings.crash), settings, program: OnceLock::new() }
    }

    fn import<'a>(&'a self, program: &'a Program, cancel: &'a Cancel) -> Import<'a> {
        Import { shelf: &self.shelf, program, most: self.settings.push_max, cancel }
    }

    /// Returns git, looked for when it is first needed. A search that failed is repeated.
    fn program(&self) -> Result<&Program> {
        match self.program.get() {
            Some(found) => Ok(found),
            None => {
                let found = Program::find(&self.settings.search)?;
                Ok(self.program.get_or_init(|| found))
            }
        }
    }
}

impl Repos for HostedRepos {
    fn probe(&self) -> Result<String> {
        self.program().map(|program| program.version.clone())
    }

    fn add(&self, tenant: Option<&TenantId>, name: &RepoName, now: Timestamp) -> Result<Repo> {
        self.shelf.add(tenant, name, now, |_| Ok(()))
    }

    fn add_from(
        &self,
        tenant: Option<&TenantId>,
        name: &RepoName,
        now: Timestamp,
        bundle: OwnedFd,
        cancel: &Cancel,
    ) -> Result<Repo> {
        let import = self.import(self.program()?, cancel);
        self.shelf.add(tenant, name, now, |open| import.fill(open, File::from(bundle)))
    }

    fn update_from(
        &self,
        id: &RepoId,
        bundle: OwnedFd,
        rules: &RefRules,
        cancel: &Cancel,
    ) -> Result<Vec<Pushed>> {
        let import = self.import(self.program()?, cancel);
        import.update(&self.shelf.open(id)?, File::from(bundle), rules)
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

    fn heads(&self, id: &RepoId) -> Result<Heads> {
        serve::heads(&self.shelf, &self.shelf.open(id)?, self.program()?)
    }

    fn receive(
        &self,
        id: &RepoId,
        changes: &[RefChange],
        pack: Option<OwnedFd>,
        cancel: &Cancel,
    ) -> Result<()> {
        let most = self.settings.push_max;
        let receiving =
            Receiving { changes, shallow: &[], atomic: true, rewinds: Rewinds::Allowed, by: By::Host, most };
        let (open, mut pack) = (self.shelf.open(id)?, pack.map(File::from));
        let received = receiving.carry_out(&self.shelf, &open, self.program()?, pack.as_mut(), cancel)?;
        received.error(most).map_or(Ok(()), Err)
    }

    fn set_default(&self, id: &RepoId, branch: &BranchName) -> Result<()> {
        self.shelf.set_default(id, branch)
    }

    fn serve(
        &self,
        id: &RepoId,
        serving: &Serving,
        input: OwnedFd,
        output: OwnedFd,
        cancel: &Cancel,
    ) -> Result<Vec<Pushed>> {
        let open = self.shelf.open(id)?;
        let most = self.settings.push_max;
        let client =
            Client { shelf: &self.shelf, open: &open, program: self.program()?, serving, most, cancel };
        client.serve(input, output)
    }

    fn directory(&self, id: &RepoId) -> Result<PathBuf> {
        self.shelf.open(id).map(|open| open.git)
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
