//! Tenants: who shares a machine with others without seeing them, and what the operator allows each.

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

/// Sandboxes a tenant may have at once where nobody said how many: more than an agent needs, fewer than a machine has
/// room for.
pub const SANDBOXES: usize = 1000;
/// What volumes, snapshots, images and kept output of a tenant may take unless the settings say otherwise.
pub const STORAGE: u64 = 50 << 30;
/// What a volume of a tenant's is called among everybody's.
const VOLUME_PREFIX: &str = "tnt:";

/// What the operator allows one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantPolicy {
    /// In place of what everybody may use.
    pub images: Option<Allowed>,
    /// In place of what everybody gets.
    pub limits: Option<Ranges>,
    /// Sandboxes at once.
    pub sandboxes: usize,
    /// Bytes of what outlives sandboxes: volumes by what they may hold, snapshots, images, kept output.
    pub storage: u64,
    /// Without bounds if absent.
    pub rate: Option<Rate>,
}

impl Default for TenantPolicy {
    fn default() -> Self {
        Self { images: None, limits: None, sandboxes: SANDBOXES, storage: STORAGE, rate: None }
    }
}

/// How often a tenant may ask for something.
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
    /// Those that have rules of their own.
    pub named: BTreeMap<TenantId, TenantPolicy>,
    pub others: TenantPolicy,
}

impl Tenants {
    /// Returns the rules for one.
    pub fn of(&self, tenant: &TenantId) -> &TenantPolicy {
        self.named.get(tenant).unwrap_or(&self.others)
    }
}

impl Policy {
    /// Returns the operator's rules as they are for a tenant.
    pub fn of_tenant(&self, policy: &TenantPolicy) -> Self {
        Self {
            images: policy.images.clone().unwrap_or_else(|| self.images.clone()),
            limits: policy.limits.clone().unwrap_or_else(|| self.limits.clone()),
            ..self.clone()
        }
    }
}

/// Refuses what only the home's own people may ask for: what has to do with the machine, and what nothing bounds.
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

/// Refuses images of registries on the machine or next to it, unless the operator has a list of images: whoever names a
/// registry has the daemon go there.
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

/// Tells whether a host is a name of the internet, and no address in any of the ways there are to write one: what ends in
/// a number is one to whoever resolves it (`127.1`, `0x7f.1`).
fn is_name(host: &str) -> bool {
    let Some((_, last)) = host.trim_end_matches('.').rsplit_once('.') else { return false };
    host.parse::<IpAddr>().is_err()
        && !host.starts_with('[')
        && !last.starts_with(|one: char| one.is_ascii_digit())
}

/// Refuses a tenant something that is for the home's own people.
pub fn denied(what: &str) -> Error {
    Error::new(Kind::Denied, format!("{what} is not for tenants"))
}

/// Refuses a tenant one more than the operator allows.
pub fn too_many(most: usize) -> Error {
    Error::new(Kind::LimitExceeded, format!("there may be {most} sandboxes at once"))
        .hint("close some, or ask the operator for more")
        .detail("limit", "sandboxes")
        .detail("max", most)
}

/// Refuses a tenant more bytes than the operator allows. `what` completes "could not".
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

/// Returns a spec as backends are told it: with the names volumes have among everybody's.
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

/// Returns what a tenant's volume is called among everybody's: no two tenants' names meet, whatever they choose.
pub fn qualify(tenant: &TenantId, name: &VolumeName) -> Result<VolumeName> {
    // The length says where the tenant ends: either name may hold whatever could separate them.
    let whole = format!("{}{name}", prefix(tenant));
    whole.parse().map_err(|_| Error::invalid("mounts.source", "is too long for the name of a volume"))
}

/// Returns what a tenant calls a volume, if it is the tenant's.
pub fn unqualify(tenant: &TenantId, name: &VolumeName) -> Option<VolumeName> {
    name.as_str().strip_prefix(&prefix(tenant))?.parse().ok()
}

fn prefix(tenant: &TenantId) -> String {
    format!("{VOLUME_PREFIX}{}:{tenant}:", tenant.as_str().len())
}
