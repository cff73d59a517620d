//! The volumes a caller may know of. Each tenant has names of its own, whatever others call theirs.

use coracle_core::volume::{Kept, Volumes};
use coracle_core::{Ceiling, Error, Kind, Record, Result, TenantId, VolumeName, tenant};

use super::Access;
use crate::Caller;
use crate::access::tenancy::beyond;

/// The volumes of one backend, as a caller sees them.
pub(crate) struct Shelf<'a> {
    volumes: &'a dyn Volumes,
    tenant: Option<&'a TenantId>,
    /// A model's: only the volumes its sandboxes have are shown below it, and none is deleted.
    ceiling: Option<&'a Ceiling>,
}

impl Access {
    /// Returns the volumes of the chosen backend, as a caller sees them.
    pub(crate) fn shelf<'a>(&'a self, caller: &'a Caller, named: Option<&str>) -> Result<Shelf<'a>> {
        named.map_or(Ok(()), |name| self.check_named(caller, name))?;
        let (tenant, ceiling) = (caller.tenant.as_ref(), caller.ceiling.as_deref());
        let ceiling = ceiling.filter(|ceiling| ceiling.is_of_model());
        Ok(Shelf { volumes: self.placement.volumes(named)?, tenant, ceiling })
    }

    /// Returns the volumes a sandbox has its own among.
    pub(crate) fn shelf_of<'a>(&'a self, record: &'a Record) -> Result<Shelf<'a>> {
        let volumes = self.placement.volumes(Some(&record.backend))?;
        Ok(Shelf { volumes, tenant: record.tenant.as_ref(), ceiling: None })
    }
}

impl Shelf<'_> {
    pub fn list(&self) -> Result<Vec<Kept>> {
        let listed = self.volumes.list()?.into_iter();
        let own = |kept: Kept| match self.tenant {
            None => Some(kept),
            Some(tenant) => Some(Kept { name: tenant::unqualify(tenant, &kept.name)?, ..kept }),
        };
        let shown = |kept: &Kept| self.ceiling.is_none_or(|ceiling| ceiling.mounts_volume(&kept.name));
        Ok(listed.filter_map(own).filter(shown).collect())
    }

    pub fn remove(&self, name: &VolumeName) -> Result<()> {
        if self.ceiling.is_some() {
            return Err(beyond("deleting a volume").detail("volume", name.as_str()));
        }
        let Some(tenant) = self.tenant else { return self.volumes.remove(name) };
        self.volumes.remove(&tenant::qualify(tenant, name)?).map_err(|error| reworded(&error, name))
    }
}

/// Says what went wrong in the tenant's words: the backend's have the names of all tenants in them.
fn reworded(error: &Error, name: &VolumeName) -> Error {
    let message = match error.kind {
        Kind::NotFound => format!("there is no volume `{name}`"),
        Kind::Conflict => format!("could not remove volume `{name}`: it is in use"),
        _ => format!("could not remove volume `{name}`"),
    };
    Error::new(error.kind, message).detail("volume", name.as_str())
}
