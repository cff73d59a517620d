//! What of a tenant's outlives its sandboxes, in bytes, and the bound on it: volumes, snapshots, images, kept output.
//!
//! A volume counts with what it may hold, not with what is in it: it is not looked at while it is written to. Each backend
//! keeps what it has on a disk of its own, so the bound holds for each backend.

pub mod claims;
mod turns;

use std::sync::Arc;

use coracle_core::image::{HOST, Images, Reference, Removed, Stored};
use coracle_core::mount::Source;
use coracle_core::tenant::Tenants;
use coracle_core::{Backend, Error, ImageId, KeptLogs, Record, Result, Spec, TenantId, VolumeName, tenant};

use self::claims::Claims;
use self::turns::{Turn, Turns};

/// The right to make volumes of a tenant on a backend: of two calls that would fill the last of a bound, one may.
type Making<'a> = Option<Turn<'a>>;

/// What tenants keep beside their sandboxes.
#[derive(Debug)]
pub(crate) struct Holdings {
    tenants: Tenants,
    claims: Option<Claims>,
    logs: Option<Arc<dyn KeptLogs>>,
    /// Taken while volumes of a tenant are made and while an image is claimed or removed: of two calls for the last of a
    /// bound, one gets it. Only within this process.
    turns: Turns,
}

impl Holdings {
    pub fn new(tenants: Tenants, claims: Option<Claims>, logs: Option<Arc<dyn KeptLogs>>) -> Self {
        Self { tenants, claims, logs, turns: Turns::default() }
    }

    /// Returns what a tenant's things on a backend take.
    fn holdings(&self, tenant: &TenantId, backend: &Arc<dyn Backend>) -> Result<u64> {
        let logs = self.logs.as_ref().map_or(0, |logs| logs.taken_by(tenant));
        let mut taken = logs + self.volumes_of(tenant, backend)?;
        if let Some(images) = backend.images() {
            let claimed = self.claims().map(|claims| claims.of(tenant, backend.name())).unwrap_or_default();
            let counts = |stored: &&Stored| {
                stored.tenant.as_ref() == Some(tenant) || claimed.contains(&stored.reference)
            };
            taken += images.list()?.iter().filter(counts).map(|stored| stored.size_bytes).sum::<u64>();
        }
        Ok(taken)
    }

    fn volumes_of(&self, tenant: &TenantId, backend: &Arc<dyn Backend>) -> Result<u64> {
        let Some(volumes) = backend.volumes() else { return Ok(0) };
        let own = volumes.list()?.into_iter().filter(|kept| tenant::unqualify(tenant, &kept.name).is_some());
        let takes = |limit_mb: Option<u64>, size: Option<u64>| match limit_mb {
            Some(megabytes) => megabytes << 20,
            None => size.unwrap_or(0),
        };
        Ok(own.map(|kept| takes(kept.limit_mb, kept.size_bytes)).sum())
    }

    /// Refuses a tenant more than its bound, with so much on top of what it has.
    fn expect_storage(
        &self,
        tenant: &TenantId,
        backend: &Arc<dyn Backend>,
        more: u64,
        what: &str,
    ) -> Result<()> {
        let most = self.tenants.of(tenant).storage;
        let taken = self.holdings(tenant, backend)?.saturating_add(more);
        match taken > most {
            true => Err(tenant::too_much(what, taken, most)),
            false => Ok(()),
        }
    }

    /// Refuses the volumes a sandbox would make if they are too much for its tenant; they may be made until the result
    /// is dropped. `spec` has the names volumes have on the backend.
    pub(crate) fn admit_volumes(
        &self,
        record: &Record,
        backend: &Arc<dyn Backend>,
        spec: &Spec,
    ) -> Result<Making<'_>> {
        let (Some(tenant), Some(volumes)) = (&record.tenant, backend.volumes()) else { return Ok(None) };
        let wanted: Vec<&VolumeName> = spec
            .mounts
            .iter()
            .filter_map(|mount| match &mount.source {
                Source::Volume(name) => Some(name),
                Source::Directory(_) => None,
            })
            .collect();
        if wanted.is_empty() {
            return Ok(None);
        }
        let making = self.turns.take(format!("volumes of {tenant} on {}", backend.name()));
        let there = volumes.list()?;
        let new = wanted.iter().filter(|name| !there.iter().any(|kept| kept.name == ***name)).count() as u64;
        if new == 0 {
            return Ok(None);
        }
        let each = spec.limits.workspace_mb.unwrap_or(0) << 20;
        self.expect_storage(tenant, backend, each.saturating_mul(new), "make a volume")?;
        Ok(Some(making))
    }

    /// Makes a snapshot for the sandbox's tenant, and removes it again if it is too much.
    pub(crate) fn hold_snapshot(
        &self,
        record: &Record,
        backend: &Arc<dyn Backend>,
        make: impl FnOnce() -> Result<Stored>,
    ) -> Result<Stored> {
        let Some(tenant) = &record.tenant else { return make() };
        let what = "keep a snapshot";
        self.expect_storage(tenant, backend, 0, what)?;
        let stored = make()?;
        self.expect_storage(tenant, backend, 0, what).inspect_err(|_| {
            let _ = backend.images().map(|images| images.remove(&stored.reference));
        })?;
        Ok(stored)
    }

    /// Brings an image, for a tenant or for the home's own people, and takes it back if it is too much for a tenant.
    pub(crate) fn hold_image<T>(
        &self,
        tenant: Option<&TenantId>,
        backend: &Arc<dyn Backend>,
        image: &str,
        bring: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let reference = image.parse::<Reference>().ok().filter(|_| is_shared(image));
        let (Some(tenant), Some(claims), Some(reference)) = (tenant, self.claims(), reference) else {
            return bring();
        };
        let (name, reference) = (backend.name(), reference.to_string());
        let Some(images) = backend.images() else { return bring() };
        let claiming = self.claiming(name, &reference);
        let before = digest(images, &reference)?;
        // What the operator brought is there for all and counts for no tenant.
        if before.is_some() && !claims.is_claimed(name, &reference) {
            drop(claiming);
            return bring();
        }
        let new = !claims.has(tenant, name, &reference);
        if new {
            self.expect_storage(tenant, backend, 0, "bring an image")?;
            // Before it is here: an image without a claim is the operator's, and counts for no tenant.
            claims.add(tenant, name, &reference).map_err(|error| not_noted(&reference, error))?;
        }
        drop(claiming);
        let brought = bring().inspect_err(|_| {
            if new {
                let _ = self.let_go_of(tenant, backend, &reference);
            }
        })?;
        if before.is_some() && before != digest(images, &reference)? {
            // The name leads elsewhere now. What it led to counts for no tenant any more, and must not stay.
            images.collect()?;
        }
        if let Err(error) = self.expect_storage(tenant, backend, 0, "bring an image") {
            let _ = self.let_go_of(tenant, backend, &reference);
            return Err(error);
        }
        Ok(brought)
    }

    /// Notes images the home's own people brought: they stay when tenants let go of them.
    pub(crate) fn adopt_own(&self, backend: &str, brought: &[Stored]) {
        let Some(claims) = self.claims() else { return };
        for stored in brought {
            // Where it cannot be noted, the last tenant's removal takes it, and it is pulled again.
            let _ = claims.adopt(backend, &stored.reference);
        }
    }

    /// Takes back a tenant's claim on an image, and removes the image with the last one.
    pub(crate) fn let_go_of(
        &self,
        tenant: &TenantId,
        backend: &Arc<dyn Backend>,
        reference: &str,
    ) -> Result<Removed> {
        // No other call claims it between the look and the removal.
        let _claiming = self.claiming(backend.name(), reference);
        let alone = match self.claims() {
            Some(claims) => claims
                .withdraw(tenant, backend.name(), reference)
                .map_err(|error| not_noted(reference, error))?,
            None => false,
        };
        match backend.images().filter(|_| alone) {
            Some(images) => images.remove(reference),
            None => Ok(Removed { references: vec![reference.to_owned()], ..Removed::default() }),
        }
    }

    fn claiming(&self, backend: &str, reference: &str) -> Turn<'_> {
        self.turns.take(format!("claims on {reference} at {backend}"))
    }

    /// Returns where it is noted who brought which image.
    pub(crate) fn claims(&self) -> Option<&Claims> {
        self.claims.as_ref()
    }
}

/// Tells whether an image of this name is kept once for all tenants.
fn is_shared(image: &str) -> bool {
    image != HOST && ImageId::among_names(image).is_none()
}

fn digest(images: &dyn Images, reference: &str) -> Result<Option<String>> {
    Ok(images.list()?.into_iter().find(|stored| stored.reference == reference).map(|stored| stored.digest))
}

fn not_noted(reference: &str, error: std::io::Error) -> Error {
    Error::internal(format!("could not note who brought image `{reference}`"), error)
}
