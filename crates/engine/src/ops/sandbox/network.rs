//! `sandbox_network`: narrows what a sandbox may reach. Connections it may not have any more end before this returns.

use coracle_core::store::Durability;
use coracle_core::{Error, Network, Result, SandboxId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Repeat, Scope, Set};
use crate::{Call, Engine, crash};

pub const FACTS: Facts =
    Facts::destroys("sandbox_network", "Narrow a sandbox's network", "Narrows what a sandbox may reach")
        .repeats(Repeat::Always)
        .among(Set::Network)
        .within(Scope::Everybody)
        .waking()
        .for_models(Model::AllFields);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    /// `none`, or `allow=…` with nothing that is not allowed now.
    pub network: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub sandbox_id: SandboxId,
    /// What it may reach now.
    #[schemars(with = "String")]
    pub network: Network,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let caller = &call.caller;
    let network: Network = input.network.parse()?;
    // Its keeper answers only with a guest there.
    engine.entry().rouse(call, &input.sandbox_id)?;
    engine.access().admit(caller, &input.sandbox_id)?;
    let record = engine.records().change(&input.sandbox_id, Durability::Process, &mut |mut row| {
        // Looked at again: the sandbox may have another owner, or a narrower network, since.
        row.lease.admit(&caller.claim).map_err(|denied| denied.into_error(&row.id))?;
        if !network.is_within(row.network()) {
            return Err(wider(row.network()));
        }
        row.narrowed = Some(network.clone());
        Ok(row)
    })?;
    engine.records().crash_at(crash::NETWORK_ROW_AFTER);
    // The keeper answers when everything that is not admitted any more has been cut.
    engine.egress().keep(&record)?;
    Ok(Output { network: record.network().clone(), sandbox_id: record.id })
}

fn wider(current: &Network) -> Error {
    Error::invalid("network", format!("admits something that `{current}` does not; it can only be narrowed"))
        .hint("open a new sandbox for more")
        .detail("network", current.to_string())
}
