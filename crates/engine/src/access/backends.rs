//! Which backends a caller may name, and what it finds there.

use std::sync::Arc;

use coracle_core::image::Images;
use coracle_core::selection::AUTO;
use coracle_core::spec::{Purpose, SpecInput};
use coracle_core::{Backend, Kind, Result, tenant};

use super::Access;
use crate::Caller;
use crate::access::tenancy::beyond;

impl Access {
    /// Refuses a ceiling whose sandboxes no backend here can hold to it: the person who sets it can do something about
    /// that, the model that is refused every sandbox later cannot.
    pub fn check_ceiling(&self, model: &Caller) -> Result<()> {
        // Where the default image is not allowed, models name a language instead.
        let Ok(spec) = self.resolve_for(model, SpecInput::default(), Purpose::Session) else { return Ok(()) };
        match self.placement.on_backend(&spec, |choice| choice.backend.fit(&spec)) {
            Err(error) if error.kind == Kind::Unsupported => Err(error),
            // An engine that is down now may be up when it is needed.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Refuses a tenant backends that exist because they were named: a name is an address on other machines. Below a
    /// ceiling none may be named.
    pub(crate) fn check_named(&self, caller: &Caller, name: &str) -> Result<()> {
        let known = || name == AUTO || self.placement.backends().iter().any(|backend| backend.name() == name);
        if caller.ceiling.is_some() && caller.tenant.is_none() {
            return Err(beyond("naming a backend").detail("field", "backend"));
        }
        match caller.tenant.is_none() || known() {
            true => Ok(()),
            false => Err(tenant::denied("a backend that is not this machine's").detail("field", "backend")),
        }
    }

    /// Chooses a backend for a caller who may not choose every one.
    pub(crate) fn choose_for(&self, caller: &Caller, named: Option<&str>) -> Result<&Arc<dyn Backend>> {
        named.map_or(Ok(()), |name| self.check_named(caller, name))?;
        self.placement.choose_backend(named)
    }

    /// Returns the same for a caller who may not choose every backend.
    pub(crate) fn images_for(&self, caller: &Caller, named: Option<&str>) -> Result<&dyn Images> {
        self.placement.images_of(self.choose_for(caller, named)?)
    }
}
