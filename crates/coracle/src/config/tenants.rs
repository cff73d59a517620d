//! Settings about tenants: what each may use, how many sandboxes and bytes it may have, and its request rate.

use std::collections::BTreeMap;

use coracle_core::bytes::Bytes;
use coracle_core::image::Allowed;
use coracle_core::limits::{Range, Ranges};
use coracle_core::tenant::{Rate, TenantPolicy, Tenants};
use coracle_core::{Error, Result, TenantId};

use super::file::{self, PartialRange};
use super::layers::{Found, Layers};
use super::{Setting, setting};

/// Stands for tenants without rules of their own. No tenant can have this name.
const OTHERS: &str = "*";

/// All settings about tenants, resolved.
#[derive(Debug)]
pub struct TenantSettings {
    named: Found<BTreeMap<TenantId, Rules>>,
    others: Rules,
}

/// The written rules of one tenant.
#[derive(Debug, Clone, Default)]
struct Rules {
    images: Option<Allowed>,
    limits: file::Limits,
    sandboxes: Option<usize>,
    hibernated: Option<usize>,
    storage: Option<Bytes>,
    rate: Option<Rate>,
}

impl TenantSettings {
    /// Resolves every setting and refuses impossible tenant names and numbers out of range.
    pub(super) fn from(layers: &Layers<'_>) -> Result<Self> {
        let mut others = Rules::default();
        let named = layers.of_file(|file| Some(file.tenants.clone()), BTreeMap::new()).read(|written| {
            let mut named = BTreeMap::new();
            for (name, tenant) in written {
                let rules = rules(&name, tenant)?;
                match name.as_str() {
                    OTHERS => others = rules,
                    _ => drop(named.insert(name.parse::<TenantId>()?, rules)),
                }
            }
            Ok(named)
        })?;
        Ok(Self { named, others })
    }

    /// Returns the operator's rules. Rules not written for a tenant are the general ones.
    pub fn tenants(&self, general: &Ranges) -> Tenants {
        let named = self.named.value.iter().map(|(id, rules)| (id.clone(), rules.policy(general)));
        Tenants { named: named.collect(), others: self.others.policy(general) }
    }

    /// Refuses ranges that contradict themselves, once the general ones are known.
    pub fn check(&self, general: &Ranges) -> Result<()> {
        let all = self.named.value.values().chain([&self.others]);
        for Range { default, max } in all.flat_map(|rules| ranges(&rules.limits, general)) {
            if default > max {
                let what = format!("have a default of {default}, more than the maximum {max}");
                return Err(
                    Error::invalid("tenants.limits", what).hint(format!("correct the {}", self.named.source))
                );
            }
        }
        Ok(())
    }

    /// Returns every setting for display.
    pub fn settings(&self) -> Vec<Setting> {
        let names: Vec<_> = self.named.value.keys().map(TenantId::as_str).collect();
        let shown =
            if names.is_empty() { "none with rules of their own".to_owned() } else { names.join(", ") };
        vec![setting("tenants", shown, &self.named.source)]
    }
}

impl Rules {
    fn policy(&self, general: &Ranges) -> TenantPolicy {
        let [cpu_millicores, memory_mb, pids, timeout_seconds, workspace_mb, inodes, output_bytes] =
            ranges(&self.limits, general);
        let limits =
            Ranges { cpu_millicores, memory_mb, pids, timeout_seconds, workspace_mb, inodes, output_bytes };
        let default = TenantPolicy::default();
        TenantPolicy {
            images: self.images.clone(),
            limits: (limits != *general).then_some(limits),
            sandboxes: self.sandboxes.unwrap_or(default.sandboxes),
            hibernated: self.hibernated.unwrap_or(default.hibernated),
            storage: self.storage.map_or(default.storage, |Bytes(bytes)| bytes),
            rate: self.rate,
        }
    }
}

fn ranges(written: &file::Limits, general: &Ranges) -> [Range; 7] {
    let over = |written: PartialRange, range| written.over(range);
    [
        over(written.cpu_millicores, general.cpu_millicores),
        over(written.memory_mb, general.memory_mb),
        over(written.pids, general.pids),
        over(written.timeout_seconds, general.timeout_seconds),
        over(written.workspace_mb, general.workspace_mb),
        over(written.inodes, general.inodes),
        over(written.output_bytes, general.output_bytes),
    ]
}

fn rules(name: &str, tenant: file::Tenant) -> Result<Rules> {
    let rate = match (tenant.rate, tenant.burst) {
        (Some(0), _) | (_, Some(0)) => return Err(none_at_all(name)),
        // By default a tenant may send a second's requests at once.
        (Some(per_second), burst) => Some(Rate { per_second, burst: burst.unwrap_or(per_second) }),
        (None, Some(_)) => {
            return Err(Error::invalid("tenants.burst", format!("of `{name}` needs a `rate`")));
        }
        (None, None) => None,
    };
    Ok(Rules {
        images: tenant.images.allow.map(Allowed::only).transpose()?,
        limits: tenant.limits,
        sandboxes: tenant.sandboxes,
        hibernated: tenant.hibernated,
        storage: tenant.storage,
        rate,
    })
}

fn none_at_all(name: &str) -> Error {
    Error::invalid("tenants.rate", format!("of `{}` must be at least 1", name.escape_debug()))
}
