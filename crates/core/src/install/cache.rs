//! The port to where fetched packages are kept between sandboxes.

use std::fmt;
use std::io::{Read, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Ecosystem;
use super::manifests::hex;
use crate::cancel::Cancel;
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::TenantId;

/// Whose packages: a repository of a tenant. No other repository, and no other tenant, gets them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    pub tenant: Option<TenantId>,
    pub repo: String,
}

/// Names an entry. All of it decides what was fetched, so a difference in any of it is another entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    pub project: Project,
    pub ecosystem: Ecosystem,
    /// The SHA-256 of exactly the names and bytes that a filler gets.
    pub manifests_sha256: String,
    /// The image whose package manager fetches: tools keep packages in formats of their own, and choose them by platform.
    pub image: String,
    /// The registry the operator set, if one.
    pub registry: Option<String>,
}

impl Key {
    /// Returns a name for a file: the same for equal keys alone.
    pub fn name(&self) -> String {
        let tenant = self.project.tenant.as_ref().map(TenantId::as_str);
        let parts = [
            // A tenant's name is never empty.
            tenant.unwrap_or_default(),
            &self.project.repo,
            self.ecosystem.name(),
            &self.manifests_sha256,
            &self.image,
            self.registry.as_deref().unwrap_or_default(),
        ];
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hex(&hash.finalize())
    }
}

/// What a caller that asks for an entry gets.
#[derive(Debug)]
pub enum Claim {
    /// The entry is there.
    Sealed(Box<dyn Sealed>),
    /// There is none, and the caller is the only one that may make it. Others wait until the draft is gone.
    Vacant(Box<dyn Draft>),
    /// Another caller tried to make it while this one waited, and failed for this reason.
    Failed(String),
}

/// An entry that was made. It cannot be removed while this is held.
pub trait Sealed: fmt::Debug {
    fn bytes(&self) -> u64;

    /// Returns its contents from the beginning. Reading the last byte fails if they are not what was sealed.
    fn read(&self) -> Result<Box<dyn Read + '_>>;
}

/// An entry that is being made. Without `seal` nothing of it stays.
pub trait Draft: fmt::Debug + Write + Send {
    /// Makes the entry of what was written: whole and for all callers, or not at all. Entries that were used longest ago
    /// go where a tenant has too much.
    fn seal(self: Box<Self>, now: Timestamp) -> Result<Box<dyn Sealed>>;

    /// Tells the callers that wait why there is none. Callers that ask later are not told.
    fn fail(self: Box<Self>, reason: &str);
}

/// Keeps packages. Safe to use from many threads and processes at once.
pub trait PackageCache: fmt::Debug + Send + Sync {
    /// Returns the entry or the right to make it; waits while another caller makes it. Counts as a use.
    fn claim(&self, key: &Key, now: Timestamp, cancel: &Cancel) -> Result<Claim>;

    /// Removes entries that were not used for `keep`, entries beyond what a tenant may have, and what a crash left half made.
    /// None that is in use. Returns how many entries.
    fn sweep(&self, now: Timestamp) -> Result<usize>;

    /// Returns how many bytes are kept of a tenant's.
    fn taken_by(&self, tenant: Option<&TenantId>) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key {
            project: Project { tenant: None, repo: "repo_a".to_owned() },
            ecosystem: Ecosystem::Npm,
            manifests_sha256: "00".to_owned(),
            image: "host".to_owned(),
            registry: None,
        }
    }

    #[test]
    fn everything_in_a_key_is_in_its_name() {
        let tenant = |name: &str| Some(name.parse().expect("a tenant"));
        let keys = [
            key(),
            Key { project: Project { tenant: tenant("a"), ..key().project }, ..key() },
            Key { project: Project { tenant: tenant("b"), ..key().project }, ..key() },
            Key { project: Project { repo: "repo_b".to_owned(), ..key().project }, ..key() },
            Key { ecosystem: Ecosystem::Pnpm, ..key() },
            Key { manifests_sha256: "01".to_owned(), ..key() },
            Key { image: "node".to_owned(), ..key() },
            Key { registry: Some("x".to_owned()), ..key() },
        ];

        let names: std::collections::BTreeSet<_> = keys.iter().map(Key::name).collect();

        assert_eq!(names.len(), keys.len());
        assert_eq!(key().name(), key().name());
    }
}
