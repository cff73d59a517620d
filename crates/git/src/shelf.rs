//! Where repositories are: a directory for each, `repo_…`, with what is known of it in `repo.json` and the bare repository in
//! `git`. It is made under a draft's name and renamed, and renamed again before it is removed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use coracle_core::clock::Timestamp;
use coracle_core::error::{Error, Kind, Result};
use coracle_core::ids::{RepoId, TenantId};
use coracle_core::repo::{self, BranchName, Repo, RepoName};

use crate::crash::{self, CrashAt};
use crate::{durable, leftovers};

/// What is known of a repository, beside it.
const KNOWN: &str = "repo.json";
/// The bare repository.
const GIT: &str = "git";
/// Held by who serves a repository, and alone by who repacks it.
const LOCK: &str = "lock";
/// Held while a repository is made or renamed away.
const NAMES_LOCK: &str = "names.lock";
/// What a name begins with while a repository is made, and once it is being removed.
const DRAFT: &str = ".draft-";
const GONE: &str = ".gone-";

/// The branch a clone of an empty repository starts on.
const FIRST_BRANCH: &str = "main";
/// Says nothing of hooks, filters or remotes: each git we run gets its settings from us.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";

/// The directory with all repositories.
#[derive(Debug)]
pub(crate) struct Shelf {
    directory: PathBuf,
    crash: CrashAt,
}

/// A repository that is there for as long as this is held: nothing repacks it.
#[derive(Debug)]
pub(crate) struct Open {
    pub repo: Repo,
    /// The bare repository.
    pub git: PathBuf,
    /// Held for as long as it is open.
    pub shared: File,
}

impl Open {
    /// Returns the error for what failed on it: another call may have removed it meanwhile, which cuts off all others.
    pub fn failed(&self, attempted: &str, error: io::Error) -> Error {
        match self.git.exists() {
            true => Error::internal(format!("could not {attempted} `{}`", self.repo.id), error),
            false => repo::unknown(self.repo.id.as_str()),
        }
    }
}

impl Shelf {
    pub fn at(directory: PathBuf, crash: CrashAt) -> Self {
        Self { directory, crash }
    }

    /// Calls the crash point.
    pub fn reached(&self, point: &'static str) {
        (self.crash)(point);
    }

    /// Makes a repository and fills it before it has its name.
    pub fn add(
        &self,
        tenant: Option<&TenantId>,
        name: &RepoName,
        now: Timestamp,
        fill: impl FnOnce(&Open) -> Result<()>,
    ) -> Result<Repo> {
        let attempted = |error| Error::internal(format!("could not make repository `{name}`"), error);
        durable::make_directory(&self.directory).map_err(attempted)?;
        let (draft, open) = self.draft(tenant, name, now)?;
        let filled = fill(&open);
        let _names = self.names().map_err(attempted)?;
        let named = filled
            .and_then(|()| self.expect_free(tenant, name))
            .and_then(|()| std::fs::rename(&draft, self.place(&open.repo.id)).map_err(attempted));
        if let Err(error) = named {
            let _ = std::fs::remove_dir_all(&draft);
            return Err(error);
        }
        self.reached(crash::ADD_RENAME_AFTER);
        durable::sync_directory(&self.directory).map_err(attempted)?;
        Ok(open.repo)
    }

    fn expect_free(&self, tenant: Option<&TenantId>, name: &RepoName) -> Result<()> {
        match self.named(tenant, name)? {
            None => Ok(()),
            Some(_) => Err(Error::new(Kind::Conflict, format!("there is a repository `{name}` already"))
                .hint("choose another name, or push to the one there is")),
        }
    }

    /// Makes an empty repository under the name of a draft. Its lock is held: no sweep takes it for a dead one.
    fn draft(&self, tenant: Option<&TenantId>, name: &RepoName, now: Timestamp) -> Result<(PathBuf, Open)> {
        let attempted = |error| Error::internal(format!("could not make repository `{name}`"), error);
        let _names = self.names().map_err(attempted)?;
        self.expect_free(tenant, name)?;
        let mut random = [0; 10];
        getrandom::fill(&mut random).map_err(|error| Error::internal("could not make an id", error))?;
        let id = RepoId::generate(now, random);
        let repo = Repo { id, name: name.clone(), tenant: tenant.cloned(), created_at: now };
        let draft = self.directory.join(format!("{DRAFT}{}", repo.id));
        draw_up(&draft, &repo).map_err(attempted)?;
        let shared = File::options().write(true).open(draft.join(LOCK)).map_err(attempted)?;
        shared.lock_shared().map_err(attempted)?;
        self.reached(crash::ADD_DRAFT_AFTER);
        let git = draft.join(GIT);
        Ok((draft, Open { repo, git, shared }))
    }

    pub fn list(&self, tenant: Option<&TenantId>) -> Result<Vec<Repo>> {
        let mut repos = self.all()?;
        repos.retain(|repo| tenant.is_none() || repo.tenant.as_ref() == tenant);
        repos.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        Ok(repos)
    }

    pub fn named(&self, tenant: Option<&TenantId>, name: &RepoName) -> Result<Option<Repo>> {
        let found = self.all()?.into_iter().find(|repo| repo.tenant.as_ref() == tenant && repo.name == *name);
        Ok(found)
    }

    pub fn find(&self, id: &RepoId) -> Result<Option<Repo>> {
        match RepoId::whole(id.as_str()) {
            Some(id) => read(&self.place(&id)),
            None => Ok(None),
        }
    }

    pub fn remove(&self, id: &RepoId) -> Result<()> {
        let attempted = |error| Error::internal(format!("could not remove repository `{id}`"), error);
        let known = self.expect(id)?;
        let gone = self.directory.join(format!("{GONE}{}", known.id));
        {
            let _names = self.names().map_err(attempted)?;
            std::fs::rename(self.place(id), &gone).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => repo::unknown(id.as_str()),
                _ => attempted(error),
            })?;
            durable::sync_directory(&self.directory).map_err(attempted)?;
        }
        self.reached(crash::REMOVE_RENAME_AFTER);
        // A git that still serves a client may write into it meanwhile; a sweep removes the rest.
        let _ = std::fs::remove_dir_all(&gone);
        Ok(())
    }

    pub fn set_default(&self, id: &RepoId, branch: &BranchName) -> Result<()> {
        self.point_head(&self.open(id)?, branch)
    }

    /// Makes a branch the one a clone starts on.
    pub fn point_head(&self, open: &Open, branch: &BranchName) -> Result<()> {
        durable::replace(&open.git.join("HEAD"), head(branch.as_str()).as_bytes()).map_err(|error| {
            Error::internal(format!("could not change the default branch of `{}`", open.repo.id), error)
        })
    }

    /// Returns the branch a clone starts on.
    pub fn default_branch(&self, open: &Open) -> Result<Option<BranchName>> {
        let head = std::fs::read_to_string(open.git.join("HEAD")).map_err(|error| {
            Error::internal(format!("could not read the default branch of `{}`", open.repo.id), error)
        })?;
        Ok(head.trim_end().strip_prefix("ref: refs/heads/").and_then(|name| name.parse().ok()))
    }

    pub fn size(&self, id: &RepoId) -> Result<u64> {
        self.expect(id)?;
        measure(&self.place(id)).map_err(|error| Error::internal(format!("could not measure `{id}`"), error))
    }

    /// Returns a repository, which nothing repacks meanwhile.
    pub fn open(&self, id: &RepoId) -> Result<Open> {
        let repo = self.expect(id)?;
        let place = self.place(&repo.id);
        let lock = || {
            let file = File::options().write(true).open(place.join(LOCK))?;
            // While nothing uses it, what git left when it was killed can be told from what it is at.
            if file.try_lock().is_ok() {
                leftovers::remove(&place.join(GIT))?;
            }
            file.lock_shared()?;
            Ok(file)
        };
        let shared = lock().map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => repo::unknown(id.as_str()),
            _ => Error::internal(format!("could not lock repository `{id}`"), error),
        })?;
        Ok(Open { repo, git: place.join(GIT), shared })
    }

    /// Removes what a crash left half made or half removed.
    pub fn sweep(&self) -> Result<usize> {
        if self.half_made()?.is_empty() {
            return Ok(0);
        }
        let attempted = |error| Error::internal("could not remove what is left of repositories", error);
        // Whoever makes one holds this.
        let _names = self.names().map_err(attempted)?;
        let left = self.half_made()?;
        left.iter().try_for_each(std::fs::remove_dir_all).map_err(attempted)?;
        Ok(left.len())
    }

    /// Returns what a crash left, or what another process is making at this moment and will have made at the next.
    pub fn remains(&self) -> Result<Vec<PathBuf>> {
        if self.half_made()?.is_empty() {
            return Ok(Vec::new());
        }
        let attempted = |error| Error::internal("could not look for what is left of repositories", error);
        let _names = self.names().map_err(attempted)?;
        self.half_made()
    }

    fn half_made(&self) -> Result<Vec<PathBuf>> {
        let attempted = |error| Error::internal("could not look for what is left of repositories", error);
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(attempted(error)),
        };
        let entries = entries.collect::<io::Result<Vec<_>>>().map_err(attempted)?;
        let is_half = |name: &str| name.starts_with(DRAFT) || name.starts_with(GONE);
        let half = entries.iter().filter(|entry| entry.file_name().to_str().is_some_and(is_half));
        Ok(half.map(std::fs::DirEntry::path).filter(|place| !is_held(place)).collect())
    }

    fn expect(&self, id: &RepoId) -> Result<Repo> {
        self.find(id)?.ok_or_else(|| repo::unknown(id.as_str()))
    }

    fn place(&self, id: &RepoId) -> PathBuf {
        self.directory.join(id.as_str())
    }

    fn names(&self) -> io::Result<File> {
        let file =
            File::options().write(true).create(true).truncate(false).open(self.directory.join(NAMES_LOCK))?;
        file.lock()?;
        Ok(file)
    }

    fn all(&self) -> Result<Vec<Repo>> {
        let attempted = |error| Error::internal("could not list repositories", error);
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(attempted(error)),
        };
        let mut repos = Vec::new();
        for entry in entries {
            let entry = entry.map_err(attempted)?;
            if entry.file_name().to_str().and_then(RepoId::whole).is_some() {
                repos.extend(read(&entry.path())?);
            }
        }
        Ok(repos)
    }
}

/// Makes a repository under the name of a draft, and syncs all of it. Written here and not by `git init`, which would copy the
/// machine's templates.
fn draw_up(draft: &Path, repo: &Repo) -> io::Result<()> {
    for directory in ["git/objects/info", "git/objects/pack", "git/refs/heads", "git/refs/tags"] {
        durable::make_directory(&draft.join(directory))?;
    }
    let known = serde_json::to_vec(repo)?;
    durable::write_new(&draft.join("git/HEAD"), head(FIRST_BRANCH).as_bytes())?;
    durable::write_new(&draft.join("git/config"), CONFIG.as_bytes())?;
    durable::write_new(&draft.join(LOCK), b"")?;
    durable::write_new(&draft.join(KNOWN), &known)?;
    durable::sync_tree(draft)
}

/// Tells whether a process is filling a draft, or a git still serves what was removed.
fn is_held(place: &Path) -> bool {
    let lock = File::options().write(true).open(place.join(LOCK));
    lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(std::fs::TryLockError::WouldBlock)))
}

fn head(branch: &str) -> String {
    format!("ref: refs/heads/{branch}\n")
}

/// Reads what is known of a repository; `None` if it is not there.
fn read(place: &Path) -> Result<Option<Repo>> {
    let attempted = || format!("could not read what is known of `{}`", place.display());
    match std::fs::read(place.join(KNOWN)) {
        Ok(known) => {
            serde_json::from_slice(&known).map(Some).map_err(|error| Error::internal(attempted(), error))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::internal(attempted(), error)),
    }
}

/// Adds up files. What is removed meanwhile counts for nothing.
fn measure(place: &Path) -> io::Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(place)? {
        let entry = entry?;
        total += match entry.metadata() {
            Ok(found) if found.is_dir() => measure(&entry.path()).or_else(gone_is_empty)?,
            Ok(found) => found.len(),
            Err(error) => gone_is_empty(error)?,
        };
    }
    Ok(total)
}

fn gone_is_empty(error: io::Error) -> io::Result<u64> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(0),
        _ => Err(error),
    }
}
