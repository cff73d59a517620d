//! Which tenants brought which images. Layers are kept once for all tenants, so an image is removed with its last claim.
//!
//! A claim is a file, `OWNER/BACKEND/DIGEST`, with the reference in it; the digest is the reference's, which may be longer
//! than the name of a file. An image without a claim is the operator's.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use coracle_core::TenantId;
use sha2::{Digest as _, Sha256};

/// Stands for a slash in the name of a backend; none has one.
const SLASH: &str = "!";
/// The operator, where an image that tenants brought is wanted by the home's own people, too. No tenant's begins so.
const OPERATOR: &str = "operator";
const TENANT: &str = "tenant.";

/// The claims of a home.
#[derive(Debug, Clone)]
pub struct Claims {
    directory: PathBuf,
}

impl Claims {
    /// Keeps claims in a directory, made when it is needed.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Has a tenant claim an image.
    pub(crate) fn add(&self, tenant: &TenantId, backend: &str, reference: &str) -> io::Result<()> {
        self.put(&owner(tenant), backend, reference)
    }

    /// Tells whether a tenant has claimed an image.
    pub(crate) fn has(&self, tenant: &TenantId, backend: &str, reference: &str) -> bool {
        self.path(&owner(tenant), backend, reference).exists()
    }

    /// Takes a tenant's claim back; `true` if it was the last claim on the image.
    pub(crate) fn withdraw(&self, tenant: &TenantId, backend: &str, reference: &str) -> io::Result<bool> {
        remove(&self.path(&owner(tenant), backend, reference))?;
        Ok(!self.is_claimed(backend, reference))
    }

    /// Notes that the operator brought an image that belonged to tenants alone.
    pub(crate) fn adopt(&self, backend: &str, reference: &str) -> io::Result<()> {
        match self.is_claimed(backend, reference) {
            true => self.put(OPERATOR, backend, reference),
            false => Ok(()),
        }
    }

    /// Forgets an image that is gone.
    pub(crate) fn forget(&self, backend: &str, reference: &str) {
        for owner in self.owners() {
            let _ = remove(&self.path(&owner, backend, reference));
        }
    }

    /// Tells whether an image is claimed; one without a claim is the operator's.
    pub(crate) fn is_claimed(&self, backend: &str, reference: &str) -> bool {
        self.owners().iter().any(|owner| self.path(owner, backend, reference).exists())
    }

    /// Lists what a tenant has claimed on a backend.
    pub(crate) fn of(&self, tenant: &TenantId, backend: &str) -> BTreeSet<String> {
        let directory = self.directory.join(owner(tenant)).join(flat(backend));
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect()
    }

    fn put(&self, owner: &str, backend: &str, reference: &str) -> io::Result<()> {
        let path = self.path(owner, backend, reference);
        fs::create_dir_all(path.parent().unwrap_or(&self.directory))?;
        fs::write(path, reference)
    }

    fn owners(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn path(&self, owner: &str, backend: &str, reference: &str) -> PathBuf {
        let digest: [u8; 32] = Sha256::digest(reference).into();
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.directory.join(owner).join(flat(backend)).join(name)
    }
}

fn owner(tenant: &TenantId) -> String {
    format!("{TENANT}{tenant}")
}

fn flat(name: &str) -> String {
    name.replace('/', SLASH)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
