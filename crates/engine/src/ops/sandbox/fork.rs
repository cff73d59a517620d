//! `sandbox_fork`: makes sandboxes that start with the files of another. Its processes are not forked.

use coracle_core::forking::Method;
use coracle_core::{Epoch, Error, Kind, Result, RunId, SandboxId, SessionKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Scope, Set, sandboxes_in};
use crate::lifecycle::fork::Plan;
use crate::{Call, Engine};

/// Forks at once. Each is a sandbox with processes and a disk of its own.
const COUNT_MAX: usize = 100;

pub const FACTS: Facts =
    Facts::changes("sandbox_fork", "Fork a sandbox", "Makes sandboxes that start with the files of another")
        .among(Set::Snapshots)
        .making(|output| sandboxes_in(&output["sandbox_ids"]))
        .within(Scope::Everybody)
        .waking()
        .for_models(Model::AllFields);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    /// How many; as many as there are keys, or one, if not said.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    pub count: Option<usize>,
    /// The names they are found again by, one for each.
    #[serde(default)]
    pub session_keys: Option<Vec<SessionKey>>,
    /// Lets them write to the directories and volumes the sandbox may write to.
    #[serde(default)]
    pub share_mounts: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub sandbox_ids: Vec<SandboxId>,
    /// `layered`: they share what was there, whatever it was. `copied`: it was copied, because something ran in the
    /// sandbox or is mounted there.
    pub method: Method,
    pub forked_from: SandboxId,
    /// For how many microseconds the sandbox stood still while its files were taken.
    pub held_us: u64,
    pub owner: Option<RunId>,
    pub epoch: Epoch,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let plan = Plan { keys: keys(&input)?, parent: &input.sandbox_id, share_mounts: input.share_mounts };
    let forked = engine.lifecycle().fork(call, &plan)?;
    let lease = forked.children.first().map(|child| &child.lease);
    Ok(Output {
        owner: lease.and_then(|lease| lease.owner().cloned()),
        epoch: lease.map_or(Epoch(0), |lease| lease.epoch()),
        sandbox_ids: forked.children.into_iter().map(|child| child.id).collect(),
        method: forked.method,
        held_us: u64::try_from(forked.held.as_micros()).unwrap_or(u64::MAX),
        forked_from: input.sandbox_id,
    })
}

fn keys(input: &Input) -> Result<Vec<Option<SessionKey>>> {
    let invalid =
        |message: String, field: &str| Err(Error::new(Kind::Invalid, message).detail("field", field));
    let keys = input.session_keys.clone().unwrap_or_default();
    let count = input.count.unwrap_or(keys.len().max(1));
    if !(1..=COUNT_MAX).contains(&count) {
        return invalid(format!("`count` is 1 to {COUNT_MAX}"), "count");
    }
    if !keys.is_empty() && keys.len() != count {
        return invalid(format!("{} session keys were given for {count} forks", keys.len()), "session_keys");
    }
    Ok(match keys.is_empty() {
        true => vec![None; count],
        false => keys.into_iter().map(Some).collect(),
    })
}
