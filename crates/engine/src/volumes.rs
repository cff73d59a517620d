//! The volumes a caller may know of. Each tenant has names of its own, whatever others call theirs.

use coracle_core::volume::{Kept, Volumes};
use coracle_core::{Error, Kind, Record, Result, TenantId, VolumeName, tenant};

use crate::{Caller, Engine};

/// The volumes of one backend, as somebody sees them.
pub(crate) struct Shelf<'a> {
    volumes: &'a dyn Volumes,
    tenant: Option<&'a TenantId>,
}

impl Engine {
    /// Returns the volumes of the chosen backend, as a caller sees them.
    pub(crate) fn shelf<'a>(&'a self, caller: &'a Caller, named: Option<&str>) -> Result<Shelf<'a>> {
        named.map_or(Ok(()), |name| self.check_named(caller, name))?;
        Ok(Shelf { volumes: self.volumes(named)?, tenant: caller.tenant.as_ref() })
    }

    /// Returns the volumes a sandbox has its own among.
    pub(crate) fn shelf_of<'a>(&'a self, record: &'a Record) -> Result<Shelf<'a>> {
        Ok(Shelf { volumes: self.volumes(Some(&record.backend))?, tenant: record.tenant.as_ref() })
    }
}

impl Shelf<'_> {
    pub fn list(&self) -> Result<Vec<Kept>> {
        let listed = self.volumes.list()?;
        let Some(tenant) = self.tenant else { return Ok(listed) };
        let own = |kept: Kept| Some(Kept { name: tenant::unqualify(tenant, &kept.name)?, ..kept });
        Ok(listed.into_iter().filter_map(own).collect())
    }

    pub fn remove(&self, name: &VolumeName) -> Result<()> {
        let Some(tenant) = self.tenant else { return self.volumes.remove(name) };
        self.volumes.remove(&tenant::qualify(tenant, name)?).map_err(|error| reworded(&error, name))
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
