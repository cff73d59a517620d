//! The volumes a caller may know of. Each tenant has names of its own, whatever others call theirs.

use coracle_core::volume::{Kept, Volumes};
use coracle_core::{Ceiling, Error, Kind, Record, Result, TenantId, VolumeName, tenant};

use crate::{Caller, Engine};

/// The volumes of one backend, as somebody sees them.
pub(crate) struct Shelf<'a> {
    volumes: &'a dyn Volumes,
    tenant: Option<&'a TenantId>,
    /// Of the home's own volumes, only those its sandboxes have are shown below it.
    ceiling: Option<&'a Ceiling>,
}

impl Engine {
    /// Returns the volumes of the chosen backend, as a caller sees them.
    pub(crate) fn shelf<'a>(&'a self, caller: &'a Caller, named: Option<&str>) -> Result<Shelf<'a>> {
        named.map_or(Ok(()), |name| self.check_named(caller, name))?;
        let (tenant, ceiling) = (caller.tenant.as_ref(), caller.ceiling.as_deref());
        Ok(Shelf { volumes: self.volumes(named)?, tenant, ceiling: ceiling.filter(|_| tenant.is_none()) })
    }

    /// Returns the volumes a sandbox has its own among.
    pub(crate) fn shelf_of<'a>(&'a self, record: &'a Record) -> Result<Shelf<'a>> {
        let volumes = self.volumes(Some(&record.backend))?;
        Ok(Shelf { volumes, tenant: record.tenant.as_ref(), ceiling: None })
    }
}

impl Shelf<'_> {
    pub fn list(&self) -> Result<Vec<Kept>> {
        let listed = self.volumes.list()?;
        let Some(tenant) = self.tenant else {
            return Ok(listed.into_iter().filter(|kept| self.shows(&kept.name)).collect());
        };
        let own = |kept: Kept| Some(Kept { name: tenant::unqualify(tenant, &kept.name)?, ..kept });
        Ok(listed.into_iter().filter_map(own).collect())
    }

    pub fn remove(&self, name: &VolumeName) -> Result<()> {
        let Some(tenant) = self.tenant else {
            return match self.shows(name) {
                true => self.volumes.remove(name),
                false => Err(reworded(&Error::new(Kind::NotFound, "not shown"), name)),
            };
        };
        self.volumes.remove(&tenant::qualify(tenant, name)?).map_err(|error| reworded(&error, name))
    }
}

impl Shelf<'_> {
    fn shows(&self, name: &VolumeName) -> bool {
        self.ceiling.is_none_or(|ceiling| ceiling.mounts_volume(name))
    }
}

/// Says what went wrong in the tenant's words: the backend's have everybody's names in them.
fn reworded(error: &Error, name: &VolumeName) -> Error {
    let message = match error.kind {
        Kind::NotFound => format!("there is no volume `{name}`"),
        Kind::Conflict => format!("could not remove volume `{name}`: it is in use"),
        _ => format!("could not remove volume `{name}`"),
    };
    Error::new(error.kind, message).detail("volume", name.as_str())
}
