//! `sandbox_claim`: takes a sandbox without an owner, or tells its owner the epoch.

use coracle_core::{Epoch, Result, RunId, SandboxId, redact};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::handover::HandedOver;
use crate::catalogue::{Facts, Model, Repeat, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts =
    Facts::changes("sandbox_claim", "Take a sandbox without an owner", "Takes a sandbox without an owner")
        .repeats(Repeat::Always)
        .among(Set::Ownership)
        .within(Scope::Everybody)
        .waking()
        .for_models(Model::AllFields);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
}

/// Who owns the sandbox now.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub sandbox_id: SandboxId,
    pub owner: Option<RunId>,
    pub epoch: Epoch,
    /// The change stands, but the guest could not be told; this says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl From<HandedOver> for Output {
    fn from(HandedOver { record, unfenced }: HandedOver) -> Self {
        let why = unfenced.map(|error| redact::reason(&record, &error));
        let later = match record.pending_kill {
            Some(_) => "; what is to be killed is killed before the next request is served",
            None => "",
        };
        Self {
            owner: record.lease.owner().cloned(),
            epoch: record.lease.epoch(),
            sandbox_id: record.id,
            note: why.map(|why| format!("the guest was not told: {why}{later}")),
        }
    }
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let claimed = engine.access().claim(&call.caller, &input.sandbox_id)?;
    // Under the new epoch: the one the caller believes in may be that of before.
    let woken = engine.entry().rouse(&call.on_behalf_of(call.caller.of_its_own()), &input.sandbox_id);
    // It is the caller's all the same, and the next use tries again.
    let asleep = woken.err().map(|error| redact::reason(&claimed.record, &error));
    let output = Output::from(claimed);
    Ok(Output { note: output.note.or(asleep.map(|why| format!("it was not woken: {why}"))), ..output })
}
