//! The branch and the work tree of a sandbox that works on a repository: made before it is ready, and taken back if it
//! never becomes ready.

use coracle_core::backend::Created;
use coracle_core::repo::{self, BranchName, Heads, RefChange, Repo, RepoChoice, RepoPlace};
use coracle_core::store::{Durability, Which};
use coracle_core::{Cancel, Error, Kind, Record, Result, RunId};
use coracle_porter::Checkout;

use super::Lifecycle;
use crate::{Caller, crash, porter, spans};

/// How often a name is chosen anew where others take it at the same moment.
const ROUNDS: usize = 8;
/// Porter's threads count as processes of the sandbox.
const THREADS_MAX: u32 = 4;
const PIDS_ROOM: u64 = 16;

impl Lifecycle {
    /// Refuses a repository that the caller does not have, or a branch that it does not have, before anything is made.
    pub(super) fn expect_repo(&self, caller: &Caller, choice: Option<&RepoChoice>) -> Result<()> {
        let Some(choice) = choice else { return Ok(()) };
        let repo = self.repositories.find(caller, &choice.repo_id)?;
        self.repositories.port().probe()?;
        let heads = self.repositories.port().heads(&repo.id)?;
        repo::base(choice, &repo.name, &heads)?;
        match &choice.branch {
            Some(branch) if !repo::is_free(branch.as_str(), &heads) => Err(taken(branch)),
            _ => Ok(()),
        }
    }

    /// Makes the branch and checks it out in the workspace of a sandbox that runs and is not ready yet.
    pub(super) fn bring_repo(&self, record: &Record, created: &Created, cancel: &Cancel) -> Result<Record> {
        let Some(choice) = &record.spec.repo else { return Ok(record.clone()) };
        let repo = self.repo_of(record, choice)?;
        let record = self.make_branch(record, choice, &repo)?;
        self.records.crash_at(crash::CREATE_BRANCH_AFTER);
        let Some(place) = &record.repo else { return Ok(record) };
        let placed = self.records.change(&record.id, Durability::Process, &mut |mut row| {
            row.placement = Some(created.placement.clone());
            Ok(row)
        })?;
        let guest = self.access.visit(&placed)?;
        let user = record.spec.user(Some(&created.image));
        let order = self.order(&record, choice, place);
        let port = self.repositories.port();
        spans::within(spans::check_out(&record), || {
            porter::check_out(guest, user, port.as_ref(), &place.repo_id, order, cancel)
        })?;
        self.records.crash_at(crash::CREATE_CHECKOUT_AFTER);
        Ok(placed)
    }

    /// Finds the repository again: it was the caller's when the sandbox was asked for, and is found by its tenant.
    fn repo_of(&self, record: &Record, choice: &RepoChoice) -> Result<Repo> {
        let caller = Caller { tenant: record.tenant.clone(), ..Caller::acting_as(owner_of(record)?) };
        self.repositories.find(&caller, &choice.repo_id)
    }

    /// Writes down the branch, then makes it: a row that names a branch which is not there harms nobody, and a branch that no row
    /// names would stay.
    fn make_branch(&self, record: &Record, choice: &RepoChoice, repo: &Repo) -> Result<Record> {
        for _ in 0..ROUNDS {
            let heads = self.repositories.port().heads(&repo.id)?;
            let (base_branch, base_sha) = repo::base(choice, &repo.name, &heads)?;
            let branch = self.name_branch(record, choice, &heads)?;
            let place = RepoPlace { repo_id: repo.id.clone(), base_branch, branch, base_sha };
            let named = self.records.change(&record.id, Durability::Process, &mut |mut row| {
                row.repo = Some(place.clone());
                Ok(row)
            })?;
            self.records.crash_at(crash::CREATE_BRANCH_BEFORE);
            let change =
                RefChange { name: place.branch.full(), old: None, new: Some(place.base_sha.clone()) };
            match self.repositories.port().change_refs(&repo.id, &[change]) {
                Ok(()) => return Ok(named),
                // Another has taken the name since; the row must not claim it.
                Err(error) if error.kind == Kind::Conflict => self.disown(record)?,
                Err(error) => {
                    self.disown(record)?;
                    return Err(error);
                }
            }
        }
        let what =
            format!("could not make a branch in repository `{}`: others keep taking its name", repo.name);
        Err(Error::new(Kind::Conflict, what).hint("try again, or name a `branch`"))
    }

    fn name_branch(&self, record: &Record, choice: &RepoChoice, heads: &Heads) -> Result<BranchName> {
        match &choice.branch {
            Some(branch) if repo::is_free(branch.as_str(), heads) => Ok(branch.clone()),
            Some(branch) => Err(taken(branch)),
            None => repo::branch_for(&self.repos.prefix, &owner_of(record)?, &record.id, heads),
        }
    }

    fn disown(&self, record: &Record) -> Result<()> {
        let disowned = self.records.change(&record.id, Durability::Process, &mut |mut row| {
            row.repo = None;
            Ok(row)
        });
        disowned.map(drop)
    }

    fn order(&self, record: &Record, choice: &RepoChoice, place: &RepoPlace) -> Checkout {
        let limits = &record.spec.limits;
        let roomy = limits.pids.is_none_or(|pids| pids >= PIDS_ROOM);
        let cpus = limits.cpu_millicores.map_or(THREADS_MAX, |cpus| cpus.div_ceil(1000) as u32);
        Checkout {
            directory: coracle_core::spec::WORKSPACE.as_bytes().to_vec(),
            commit: place.base_sha.to_string(),
            branch: place.branch.to_string(),
            base_branch: place.base_branch.to_string(),
            depth: choice.depth,
            author_name: self.repos.author.name.clone(),
            author_email: self.repos.author.email.clone(),
            origin: None,
            threads: if roomy { cpus.clamp(1, THREADS_MAX) } else { 1 },
        }
    }

    /// Removes the branch of a sandbox that never became ready, if it still stands where it was made.
    ///
    /// A child of a fork has its parent's branch, and one that another record names is that sandbox's.
    pub(super) fn drop_branch(&self, record: &Record) -> Result<()> {
        let row = self.records.find(&record.id)?;
        let Some(place) = row.repo.as_ref().filter(|_| row.forked_from.is_none()) else { return Ok(()) };
        let others = self.records.store().list(Which::All)?;
        let same = |other: &Record| {
            other
                .repo
                .as_ref()
                .is_some_and(|theirs| (&theirs.repo_id, &theirs.branch) == (&place.repo_id, &place.branch))
        };
        if others.iter().any(|other| other.id != row.id && same(other)) {
            return Ok(());
        }
        let change = RefChange { name: place.branch.full(), old: Some(place.base_sha.clone()), new: None };
        match self.repositories.port().change_refs(&place.repo_id, &[change]) {
            // It was never made, has moved, or went with its repository.
            Err(error) if matches!(error.kind, Kind::Conflict | Kind::NotFound) => {}
            dropped => dropped?,
        }
        self.records.crash_at(crash::FAIL_BRANCH_AFTER);
        self.disown(&row)
    }
}

/// Returns the run that the branch is made for.
fn owner_of(record: &Record) -> Result<RunId> {
    let nobody = || Error::new(Kind::Internal, format!("sandbox `{}` has no owner yet", record.id));
    record.lease.owner().cloned().ok_or_else(nobody)
}

fn taken(branch: &BranchName) -> Error {
    Error::new(Kind::Conflict, format!("there is a branch `{branch}` already, or one below or above it"))
        .hint("name another `branch`, or none to have one made")
        .detail("field", "repo.branch")
}
