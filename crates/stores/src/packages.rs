//! Fetched packages in files of the home: an archive for each lockfile, in a directory for each tenant.
//!
//! An entry `NAME.tar` ends with the SHA-256 of what stands before it. Who reads it holds a shared lock on `NAME.lock`, who
//! makes or removes it an exclusive one, so the kernel ends each right with its holder. An entry is written to
//! `NAME.draft` and renamed; `NAME.failed` says why the last one could not be made. The times of entries are observed time.

mod draft;
mod lock;
mod sealed;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coracle_core::clock::Timestamp;
use coracle_core::install::{Claim, Key, PackageCache, Rules};
use coracle_core::{Cancel, Error, Result, TenantId};

use self::draft::DraftFile;
use self::lock::Lock;
use self::sealed::SealedFile;

/// The pause between two looks at an entry that another process makes.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// The directory of the home's own people; a tenant's has its name behind [`OF_TENANT`].
const OWN: &str = "own";
const OF_TENANT: &str = "of-";

/// Where packages are kept, and how many.
#[derive(Debug, Clone)]
pub struct PackageFiles {
    directory: PathBuf,
    rules: Rules,
}

/// The paths of one entry.
#[derive(Debug, Clone)]
struct Place {
    directory: PathBuf,
    name: String,
}

impl Place {
    fn path(&self, kind: &str) -> PathBuf {
        self.directory.join(format!("{}.{kind}", self.name))
    }

    fn entry(&self) -> PathBuf {
        self.path("tar")
    }

    fn draft(&self) -> PathBuf {
        self.path("draft")
    }

    fn lock(&self) -> PathBuf {
        self.path("lock")
    }

    fn failure(&self) -> PathBuf {
        self.path("failed")
    }

    /// Returns what tells one failure from another.
    fn last_failure(&self) -> Option<(u64, i64, i64)> {
        let metadata = fs::metadata(self.failure()).ok()?;
        Some((metadata.ino(), metadata.ctime(), metadata.ctime_nsec()))
    }
}

impl PackageCache for PackageFiles {
    fn claim(&self, key: &Key, now: Timestamp, cancel: &Cancel) -> Result<Claim> {
        let place = Place { directory: self.of(key.project.tenant.as_ref()), name: key.name() };
        DirBuilder::new().recursive(true).mode(0o700).create(&place.directory).map_err(unusable)?;
        let failed_before = place.last_failure();
        let mut pause = PAUSE;
        loop {
            if let Some(sealed) = SealedFile::open(&place).map_err(unusable)? {
                sealed.used(now);
                return Ok(Claim::Sealed(Box::new(sealed)));
            }
            if let Some(lock) = Lock::exclusive(&place).map_err(unusable)? {
                if place.entry().exists() {
                    continue;
                }
                if place.last_failure() != failed_before
                    && let Ok(reason) = fs::read_to_string(place.failure())
                {
                    return Ok(Claim::Failed(reason));
                }
                let draft = DraftFile::new(self.clone(), place, lock).map_err(unusable)?;
                return Ok(Claim::Vacant(Box::new(draft)));
            }
            if cancel.sleep(pause) {
                return Err(cancel.reason());
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn sweep(&self, now: Timestamp) -> Result<usize> {
        let mut gone = 0;
        for directory in self.directories().map_err(unusable)? {
            gone += self.sweep_directory(&directory, now).map_err(unusable)?;
        }
        Ok(gone)
    }

    fn taken_by(&self, tenant: Option<&TenantId>) -> u64 {
        let files = files(&self.of(tenant)).unwrap_or_default();
        files.iter().filter(|file| file.kind != "lock").map(|file| file.bytes).sum()
    }
}

/// A file of a tenant's directory.
#[derive(Debug)]
struct Listed {
    place: Place,
    kind: String,
    bytes: u64,
    used: SystemTime,
}

impl PackageFiles {
    /// Keeps packages in a directory, made when it is needed.
    pub fn new(directory: PathBuf, rules: Rules) -> Self {
        Self { directory, rules }
    }

    fn of(&self, tenant: Option<&TenantId>) -> PathBuf {
        self.directory.join(tenant.map_or(OWN.to_owned(), |tenant| format!("{OF_TENANT}{tenant}")))
    }

    fn directories(&self) -> io::Result<Vec<PathBuf>> {
        match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            entries => Ok(entries?.flatten().map(|entry| entry.path()).collect()),
        }
    }

    fn sweep_directory(&self, directory: &Path, now: Timestamp) -> io::Result<usize> {
        let mut gone = 0;
        for file in files(directory)? {
            let age = moment(now).duration_since(file.used).ok();
            let over = match file.kind.as_str() {
                "tar" => age.is_some_and(|age| age >= self.rules.keep),
                // Their writer holds the lock; a reason is of use only to callers that wait.
                "draft" | "failed" | "lock" => true,
                _ => false,
            };
            if over && remove(&file, now, self.rules.keep)? && file.kind == "tar" {
                gone += 1;
            }
        }
        Ok(gone + self.make_room(directory)?)
    }

    /// Removes entries until the rest of a tenant's is within bounds, those first that were used longest ago.
    fn make_room(&self, directory: &Path) -> io::Result<usize> {
        let mut entries: Vec<_> = files(directory)?.into_iter().filter(|file| file.kind == "tar").collect();
        entries.sort_by_key(|file| file.used);
        let (mut total, mut gone) = (entries.iter().map(|file| file.bytes).sum::<u64>(), 0);
        for file in entries {
            if total <= self.rules.total {
                break;
            }
            if let Some(_lock) = Lock::exclusive(&file.place)? {
                fs::remove_file(file.place.entry()).or_else(absent)?;
                total -= file.bytes;
                gone += 1;
            }
        }
        Ok(gone)
    }
}

/// Removes a file of an entry that nobody uses, having looked again; returns whether it is gone.
fn remove(file: &Listed, now: Timestamp, keep: Duration) -> io::Result<bool> {
    let Some(lock) = Lock::exclusive(&file.place)? else { return Ok(false) };
    match file.kind.as_str() {
        "tar" => {
            let used = fs::metadata(file.place.entry()).and_then(|metadata| metadata.modified());
            let over = used.is_ok_and(|used| moment(now).duration_since(used).is_ok_and(|age| age >= keep));
            if over {
                fs::remove_file(file.place.entry()).or_else(absent)?;
            }
            Ok(over)
        }
        "lock" => {
            if !file.place.entry().exists() {
                lock.remove()?;
            }
            Ok(true)
        }
        kind => fs::remove_file(file.place.path(kind)).or_else(absent).map(|()| true),
    }
}

fn files(directory: &Path) -> io::Result<Vec<Listed>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let listed = entries.flatten().filter_map(|entry| {
        let (name, metadata) = (entry.file_name(), entry.metadata().ok()?);
        let (name, kind) = name.to_str()?.split_once('.')?;
        let place = Place { directory: directory.to_owned(), name: name.to_owned() };
        let used = metadata.modified().ok()?;
        Some(Listed { place, kind: kind.to_owned(), bytes: metadata.len(), used })
    });
    let mut files: Vec<_> = listed.collect();
    // Locks last: what they guard is looked at before.
    files.sort_by_key(|file| file.kind == "lock");
    Ok(files)
}

/// Observed time as the time of a file: some days after 1970, which no clock shows.
fn moment(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(at.as_millis())
}

fn absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn unusable(error: io::Error) -> Error {
    Error::internal("could not use the package cache", error)
}
