//! What callers may: the operator's rules for each tenant, the ceiling of the door they came by, the backends they may
//! name, and how many sandboxes they may have.

use std::collections::BTreeMap;

use coracle_core::difference::Wish;
use coracle_core::image::Images;
use coracle_core::spec::{OnIdle, Purpose, SpecInput};
use coracle_core::store::Quota;
use coracle_core::tenant::{self, Rate};
use coracle_core::{Backend, Error, ImageId, Kind, Policy, Result, Spec, TenantId};

use super::Access;
use crate::Caller;

/// The rules as they are for tenants, worked out once.
#[derive(Debug)]
pub(crate) struct Tenancy {
    named: BTreeMap<TenantId, Policy>,
    others: Policy,
}

impl Tenancy {
    pub fn of(policy: &Policy) -> Self {
        let own = |(id, rules): (&TenantId, &_)| (id.clone(), policy.of_tenant(rules));
        Self {
            named: policy.tenants.named.iter().map(own).collect(),
            others: policy.of_tenant(&policy.tenants.others),
        }
    }
}

impl Access {
    /// Returns the operator's rules as they are for a caller.
    pub fn policy_for(&self, caller: &Caller) -> &Policy {
        match &caller.tenant {
            None => &self.policy,
            Some(tenant) => self.tenancy.named.get(tenant).unwrap_or(&self.tenancy.others),
        }
    }

    /// Returns how often a caller may ask for something; as often as it likes if absent.
    pub fn rate_for(&self, caller: &Caller) -> Option<Rate> {
        caller.tenant.as_ref().and_then(|tenant| self.policy.tenants.of(tenant).rate)
    }

    /// Checks what a caller wants of a sandbox, and fills in the rest. Every sandbox that is made for a caller comes by
    /// here: this is where a ceiling counts.
    pub fn resolve_for(&self, caller: &Caller, input: SpecInput, purpose: Purpose) -> Result<Spec> {
        let policy = self.policy_for(caller);
        if caller.tenant.is_some() {
            tenant::check_spec(&input)?;
            input
                .backend
                .iter()
                .chain(&input.fallback)
                .try_for_each(|name| self.check_named(caller, name))?;
        }
        let input = match &caller.ceiling {
            None => input.for_purpose(purpose),
            Some(ceiling) => ceiling.complete(input, purpose, policy)?,
        };
        let spec = Spec::resolve(input, policy)?;
        if let Some(ceiling) = &caller.ceiling {
            ceiling.check(&spec)?;
        }
        if let Some(tenant) = &caller.tenant {
            tenant::check_registry(&spec.image, &policy.images)?;
            // Names that will not do are refused before there is a sandbox.
            tenant::spec_of(Some(tenant), &spec)?;
        }
        Ok(spec)
    }

    /// Does the same for a sandbox that may be there already, and keeps what counts as written.
    pub(crate) fn wish_for(&self, caller: &Caller, input: SpecInput) -> Result<Wish> {
        let spec = self.resolve_for(caller, input.clone(), Purpose::Session)?;
        let written = match &caller.ceiling {
            None => input,
            Some(ceiling) => ceiling.written(input),
        };
        Ok(Wish { written, spec })
    }

    /// Refuses an image the caller may not choose.
    pub(crate) fn check_choice(&self, caller: &Caller, image: &str) -> Result<()> {
        let ceiling = caller.ceiling.as_ref();
        ceiling.map_or(Ok(()), |ceiling| ceiling.check_image(image, self.policy_for(caller)))
    }

    /// Refuses what is for the home's own people.
    pub(crate) fn check_own(&self, caller: &Caller, what: &str) -> Result<()> {
        match (&caller.tenant, &caller.ceiling) {
            (None, None) => Ok(()),
            (Some(_), _) => Err(tenant::denied(what)),
            (None, Some(_)) => Err(beyond(what)),
        }
    }

    /// Returns how many sandboxes a tenant may have, for the store to check where it writes the rows of so many more of
    /// this spec.
    pub(crate) fn quota(&self, tenant: Option<&TenantId>, spec: &Spec, more: usize) -> Option<Quota> {
        let may_sleep = spec.on_idle() == OnIdle::Hibernate;
        let tenant = self.policy.tenants.of(tenant?);
        Some(Quota { most: tenant.sandboxes, more, asleep: may_sleep.then_some(tenant.hibernated) })
    }

    /// Returns the same for one that wakes: what sleeps becomes less by it.
    pub(crate) fn quota_to_wake(&self, tenant: Option<&TenantId>) -> Option<Quota> {
        let most = self.policy.tenants.of(tenant?).sandboxes;
        Some(Quota { most, more: 1, asleep: None })
    }

    /// Refuses a tenant that has all it may have. Only early: the store decides.
    pub(crate) fn expect_place(&self, tenant: Option<&TenantId>, spec: &Spec) -> Result<()> {
        match (tenant, self.quota(tenant, spec, 1)) {
            (Some(tenant), Some(quota)) => quota.admit(self.records.store().count(tenant)?),
            _ => Ok(()),
        }
    }

    /// Refuses an image made from another tenant's sandbox, as if it had never been.
    pub(crate) fn check_image(&self, caller: &Caller, backend: &dyn Backend, spec: &Spec) -> Result<()> {
        match (&caller.tenant, ImageId::among_names(&spec.image)) {
            (Some(_), Some(image)) => self.find_snapshot(caller, backend.images(), &image),
            _ => Ok(()),
        }
    }

    /// Looks for an image made from a sandbox, among those the caller may know of.
    pub(crate) fn find_snapshot(
        &self,
        caller: &Caller,
        images: Option<&dyn Images>,
        image: &ImageId,
    ) -> Result<()> {
        let listed = images.map(Images::list).transpose()?.unwrap_or_default();
        let own = |stored: &coracle_core::image::Stored| {
            stored.reference == image.as_str() && stored.tenant == caller.tenant
        };
        match listed.iter().any(own) {
            true => Ok(()),
            false => Err(no_image(image.as_str())),
        }
    }
}

/// Refuses a caller below a ceiling what is for people.
pub(crate) fn beyond(what: &str) -> Error {
    Error::new(Kind::Denied, format!("{what} is more than this server allows"))
        .hint("ask the person who started this server to do it with `coracle`")
}

/// Says that there is no such image, also where the caller may not know that there is one.
pub(crate) fn no_image(image: &str) -> Error {
    Error::new(Kind::ImageNotFound, format!("image `{image}` is not here"))
        .hint("list images to see those there are; a snapshot of a sandbox makes one")
        .detail("image", image)
}
