//! The most a sandbox may have, field by field. Only the operator's policy bounds an absent field.

use serde::{Deserialize, Serialize};

use super::{Choices, beyond};
use crate::error::Result;
use crate::image::Allowed;
use crate::limits::LimitsInput;
use crate::network::Network;
use crate::policy::Policy;
use crate::spec::{LimitsChoice, ONE_COMMAND_IDLE, Privileges, Purpose, Spec, SpecInput, Storage};

/// The bound of each field, as a token carries it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bounds {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    pub limits: LimitsInput,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privileges: Option<Privileges>,
    /// Patterns as in `images.allow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Vec<String>>,
    /// What a model with this token may choose.
    #[serde(skip_serializing_if = "Choices::is_empty")]
    pub let_choose: Choices,
}

impl Bounds {
    /// Takes a sandbox's values as bounds for others. A limit it does not have is no bound.
    pub(super) fn of(top: &Spec) -> Self {
        let limits = &top.limits;
        let bounded = limits.memory_mb.is_some();
        Self {
            network: Some(top.network.clone()),
            limits: LimitsInput {
                cpu_millicores: limits.cpu_millicores,
                memory_mb: limits.memory_mb,
                pids: limits.pids,
                timeout_seconds: Some(limits.timeout_seconds),
                workspace_mb: limits.workspace_mb,
                inodes: limits.inodes,
                output_bytes: bounded.then_some(limits.output_bytes),
            },
            privileges: Some(top.privileges),
            images: None,
            let_choose: Choices::default(),
        }
    }

    /// Refuses bounds that could not be checked later.
    pub fn check_self(&self) -> Result<()> {
        self.images.clone().map(Allowed::only).transpose().map(drop)
    }

    /// Tells whether no field is bounded.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns a sandbox at the bounds, as far as the policy allows.
    pub(super) fn spec(&self, policy: &Policy) -> SpecInput {
        let most = LimitsInput {
            cpu_millicores: Some(policy.limits.cpu_millicores.max),
            memory_mb: Some(policy.limits.memory_mb.max),
            pids: Some(policy.limits.pids.max),
            timeout_seconds: Some(policy.limits.timeout_seconds.max),
            workspace_mb: Some(policy.limits.workspace_mb.max),
            inodes: Some(policy.limits.inodes.max),
            output_bytes: Some(policy.limits.output_bytes.max),
        };
        SpecInput {
            network: self.network.as_ref().map(ToString::to_string),
            limits: Some(LimitsChoice::Limits(self.limits.lowered_to(&most))),
            privileges: self.privileges,
            ..SpecInput::default()
        }
    }

    /// Fills in bounded fields that a caller left out: the default, or the bound where that is less. They count as
    /// written, so that a machine that cannot enforce them refuses.
    pub(super) fn complete(
        &self,
        mut written: SpecInput,
        purpose: Purpose,
        policy: &Policy,
    ) -> Result<SpecInput> {
        let mut limits = match written.limits.take() {
            None => LimitsInput::default(),
            Some(LimitsChoice::Limits(limits)) => limits,
            Some(unlimited @ LimitsChoice::Word(_)) => {
                // Refused when the spec is resolved: no limit at all is above every bound.
                written.limits = Some(unlimited);
                return Ok(written.for_purpose(purpose));
            }
        };
        if let (Some(most), None, None) = (self.limits.timeout_seconds, &written.ttl, limits.timeout_seconds)
        {
            let usual = match purpose {
                Purpose::Session => policy.limits.timeout_seconds.default,
                Purpose::OneCommand => ONE_COMMAND_IDLE.as_secs(),
            };
            limits.timeout_seconds = Some(most.min(usual));
        }
        written.limits = Some(LimitsChoice::Limits(limits.clone()));
        written = written.for_purpose(purpose);
        let usual = &policy.limits;
        let fill = |field: &mut Option<u64>, most: Option<u64>, usual: u64| {
            if let (None, Some(most)) = (*field, most) {
                *field = Some(most.min(usual));
            }
        };
        fill(&mut limits.cpu_millicores, self.limits.cpu_millicores, usual.cpu_millicores.default);
        fill(&mut limits.memory_mb, self.limits.memory_mb, usual.memory_mb.default);
        fill(&mut limits.pids, self.limits.pids, usual.pids.default);
        fill(&mut limits.inodes, self.limits.inodes, usual.inodes.default);
        fill(&mut limits.output_bytes, self.limits.output_bytes, usual.output_bytes.default);
        // Files kept in memory get half of it.
        let files = match written.storage {
            Some(Storage::Memory) => limits.memory_mb.unwrap_or(usual.memory_mb.default).div_ceil(2),
            Some(Storage::Disk) | None => usual.workspace_mb.default,
        };
        fill(&mut limits.workspace_mb, self.limits.workspace_mb, files.min(usual.workspace_mb.default));
        written.limits = Some(LimitsChoice::Limits(limits));
        Ok(written)
    }

    /// Refuses a spec above these bounds.
    pub(super) fn check(&self, spec: &Spec) -> Result<()> {
        let (limits, most) = (&spec.limits, &self.limits);
        for (field, value, most) in [
            ("cpu_millicores", limits.cpu_millicores, most.cpu_millicores),
            ("memory_mb", limits.memory_mb, most.memory_mb),
            ("pids", limits.pids, most.pids),
            ("timeout_seconds", Some(limits.timeout_seconds), most.timeout_seconds),
            ("workspace_mb", limits.workspace_mb, most.workspace_mb),
            ("inodes", limits.inodes, most.inodes),
            ("output_bytes", Some(limits.output_bytes), most.output_bytes),
        ] {
            let Some(most) = most.filter(|most| value.is_none_or(|value| value > *most)) else { continue };
            let asked = value.map_or("unlimited".to_owned(), |value| value.to_string());
            let what = format!("`limits.{field}` is {asked}, more than the ceiling of {most}");
            return Err(beyond(what, &format!("limits.{field}")).detail("max", most));
        }
        if let Some(most) = self.network.as_ref().filter(|most| !spec.network.is_within(most)) {
            let what = format!("the network `{}` is more than the ceiling, `{most}`", spec.network);
            return Err(beyond(what, "network").detail("max", most.to_string()));
        }
        match self.privileges.filter(|most| !spec.privileges.is_within(*most)) {
            Some(most) => {
                let (asked, most) = (spec.privileges.name(), most.name());
                let what = format!("the privileges `{asked}` are more than the ceiling, `{most}`");
                Err(beyond(what, "privileges").detail("max", most))
            }
            None => Ok(()),
        }
    }
}
