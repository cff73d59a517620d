//! Tenants: groups of callers that share a machine without seeing each other, and what the operator allows each.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::bytes::Bytes;
use crate::error::{Error, Kind, Result};
use crate::ids::{ImageId, TenantId, VolumeName};
use crate::image::{Allowed, HOST, Reference};
use crate::limits::Ranges;
use crate::mount::{MountInput, Source};
use crate::policy::Policy;
use crate::spec::{LimitsChoice, Spec, SpecInput};

/// The default number of sandboxes a tenant may have at once: more than an agent needs, fewer than a machine has room
/// for.
pub const SANDBOXES: usize = 1000;
/// The default number of a tenant's sandboxes that may sleep at once: each keeps its disk.
pub const HIBERNATED: usize = 100;
/// The default of what a tenant's volumes, snapshots, images and kept output may take.
pub const STORAGE: u64 = 50 << 30;
/// The prefix of tenants' volumes among all volumes.
const VOLUME_PREFIX: &str = "tnt:";

/// What the operator allows one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantPolicy {
    /// Replaces the general list of images.
    pub images: Option<Allowed>,
    /// Replaces the general limits.
    pub limits: Option<Ranges>,
    /// Sandboxes at once, without those that sleep.
    pub sandboxes: usize,
    /// Sandboxes that sleep, their files where they were.
    pub hibernated: usize,
    /// Bytes for what outlives sandboxes: volumes (by their maximum size), snapshots, images, kept output.
    pub storage: u64,
    /// Unlimited if absent.
    pub rate: Option<Rate>,
}

impl Default for TenantPolicy {
    fn default() -> Self {
        Self {
            images: None,
            limits: None,
            sandboxes: SANDBOXES,
            hibernated: HIBERNATED,
            storage: STORAGE,
            rate: None,
        }
    }
}

/// How often a tenant may send requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// In the long run.
    pub per_second: u32,
    /// At once, after a pause.
    pub burst: u32,
}

/// What the operator allows tenants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tenants {
    /// Tenants with rules of their own.
    pub named: BTreeMap<TenantId, TenantPolicy>,
    pub others: TenantPolicy,
}

impl Tenants {
    /// Returns the rules of one tenant.
    pub fn of(&self, tenant: &TenantId) -> &TenantPolicy {
        self.named.get(tenant).unwrap_or(&self.others)
    }
}

impl Policy {
    /// Returns the operator's rules as they apply to a tenant.
    pub fn of_tenant(&self, policy: &TenantPolicy) -> Self {
        Self {
            images: policy.images.clone().unwrap_or_else(|| self.images.clone()),
            limits: policy.limits.clone().unwrap_or_else(|| self.limits.clone()),
            ..self.clone()
        }
    }
}

/// Refuses what only the home's own people may ask for: access to the machine, and anything unbounded.
pub fn check_spec(input: &SpecInput) -> Result<()> {
    input.mounts.iter().try_for_each(check_mount)?;
    match input.limits {
        Some(LimitsChoice::Word(_)) => Err(denied("a sandbox without limits")
            .detail("field", "limits")
            .hint("leave `limits` out for the usual ones, or write numbers")),
        Some(LimitsChoice::Limits(_)) | None => Ok(()),
    }
}

fn check_mount(mount: &MountInput) -> Result<()> {
    match mount.source.starts_with('/') {
        true => Err(denied("a directory of the machine")
            .detail("field", "mounts.source")
            .hint("mount a volume: a source that is a name, not a path")),
        false => Ok(()),
    }
}

/// Refuses images of registries on the machine or its network, unless the operator has a list of images: the daemon
/// connects to any registry that an image names.
pub fn check_registry(image: &str, allowed: &Allowed) -> Result<()> {
    let own = image == HOST || ImageId::among_names(image).is_some();
    let Some(reference) = image.parse::<Reference>().ok().filter(|_| !own) else { return Ok(()) };
    let registry = reference.registry();
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    match is_name(host) || allowed.patterns().is_some() {
        true => Ok(()),
        false => Err(Error::new(
            Kind::ImageNotAllowed,
            format!("image `{image}` is at a registry of this machine's network"),
        )
        .detail("image", image)
        .hint("the operator allows such images by a list (`images.allow`)")),
    }
}

/// Tells whether a host is a name of the internet, and not an address in any notation: resolvers take text that ends
/// in a number for one (`127.1`, `0x7f.1`).
fn is_name(host: &str) -> bool {
    let Some((_, last)) = host.trim_end_matches('.').rsplit_once('.') else { return false };
    host.parse::<IpAddr>().is_err()
        && !host.starts_with('[')
        && !last.starts_with(|one: char| one.is_ascii_digit())
}

/// Returns the error for something that tenants may not do.
pub fn denied(what: &str) -> Error {
    Error::new(Kind::Denied, format!("{what} is not for tenants"))
}

/// Returns the error for one sandbox more than the operator allows.
pub fn too_many(most: usize) -> Error {
    Error::new(Kind::LimitExceeded, format!("there may be {most} sandboxes at once"))
        .hint("close some, or ask the operator for more")
        .detail("limit", "sandboxes")
        .detail("max", most)
}

/// Returns the error for one more sandbox that may sleep than the operator allows.
pub fn too_many_asleep(most: usize) -> Error {
    Error::new(Kind::LimitExceeded, format!("there may be {most} hibernated sandboxes at once"))
        .hint("close some that sleep, open this one with `on_idle: destroy`, or ask the operator for more")
        .detail("limit", "tenants.hibernated")
        .detail("max", most)
}

/// Returns the error for more bytes than the operator allows. `what` completes "could not".
pub fn too_much(what: &str, taken: u64, most: u64) -> Error {
    let (shown, bound) = (Bytes(taken), Bytes(most));
    Error::new(
        Kind::LimitExceeded,
        format!("could not {what}: volumes, snapshots, images and logs would take {shown} of {bound}"),
    )
    .hint("remove volumes and images, make volumes smaller (`--disk`), or ask the operator for more")
    .detail("limit", "tenants.storage")
    .detail("max", most)
    .detail("taken", taken)
}

/// Returns a spec for the backend, with volumes under their full names.
pub fn spec_of<'a>(tenant: Option<&TenantId>, spec: &'a Spec) -> Result<Cow<'a, Spec>> {
    let Some(tenant) = tenant else { return Ok(Cow::Borrowed(spec)) };
    let mut whole = spec.clone();
    for mount in &mut whole.mounts {
        if let Source::Volume(name) = &mount.source {
            mount.source = Source::Volume(qualify(tenant, name)?);
        }
    }
    Ok(Cow::Owned(whole))
}

/// Returns the full name of a tenant's volume. Names of two tenants never collide, whatever they choose.
pub fn qualify(tenant: &TenantId, name: &VolumeName) -> Result<VolumeName> {
    // The length says where the tenant ends: either name may contain any separator.
    let whole = format!("{}{name}", prefix(tenant));
    whole.parse().map_err(|_| Error::invalid("mounts.source", "is too long for the name of a volume"))
}

/// Returns the tenant's own name for a volume, if it is the tenant's.
pub fn unqualify(tenant: &TenantId, name: &VolumeName) -> Option<VolumeName> {
    name.as_str().strip_prefix(&prefix(tenant))?.parse().ok()
}

fn prefix(tenant: &TenantId) -> String {
    format!("{VOLUME_PREFIX}{}:{tenant}:", tenant.as_str().len())
}
