//! `sandbox_list`: lists the sandboxes a caller may see, of every owner.

use std::collections::BTreeMap;
use std::time::Duration;

use coracle_core::reconcile::LOST_KEPT;
use coracle_core::record::{Kept, KeptAt};
use coracle_core::store::Which;
use coracle_core::{Epoch, Error, Record, Result, RunId, SandboxId, SessionKey, State, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Answer, Facts, Model, Scope, Set};
use crate::{Call, Engine};

/// Returned unless the caller says otherwise: more than a person reads.
const DEFAULT: usize = 1000;
/// The most at once: as many as are kept of a tenant's that have ended.
pub const MOST: usize = 10_000;

pub const FACTS: Facts = Facts::reads("sandbox_list", "List sandboxes", "Lists sandboxes")
    .among(Set::Inventory)
    .answering(Answer::Measured)
    .within(Scope::Everybody)
    .for_models(Model::AllFields);

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Those that have ended, too. What has expired is listed for an hour without it.
    #[serde(default)]
    pub all: bool,
    /// At most this many, the newest; 1000 if absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = MOST))]
    pub max: Option<usize>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    /// The oldest first.
    pub sandboxes: Vec<Summary>,
    /// There are older ones, which `max` left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// A sandbox from outside.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    pub sandbox_id: SandboxId,
    pub state: State,
    pub owner: Option<RunId>,
    pub epoch: Epoch,
    pub backend: String,
    pub image: String,
    pub session_key: Option<SessionKey>,
    /// Milliseconds since 1970.
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub labels: BTreeMap<String, String>,
    /// Since when it was idle, where it has expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Timestamp>,
    /// Why it is in the state it is in.
    pub reason: Option<String>,
    /// The sandbox whose files it started with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<SandboxId>,
    /// Where its files are while it is hibernated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptView>,
}

/// The files of a hibernated sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeptView {
    pub at: KeptAt,
    /// How much of the disk they take, if the backend knows.
    pub bytes: Option<u64>,
    /// Since when it sleeps.
    pub since: Timestamp,
    /// When it ends if no caller uses it; null where sleepers are kept for ever. Time in which the machine was off does not
    /// count, so it may end later.
    pub expires_at: Option<Timestamp>,
}

impl Summary {
    /// Returns a record as callers see it, where sleepers are kept for so long; for ever if absent.
    pub fn of(record: &Record, keep: Option<Duration>) -> Self {
        let view = |kept: &Kept| KeptView {
            at: kept.at,
            bytes: kept.bytes,
            since: kept.since.wall,
            expires_at: keep.map(|keep| kept.expires_at(keep)),
        };
        Self {
            sandbox_id: record.id.clone(),
            state: record.state,
            owner: record.lease.owner().cloned(),
            epoch: record.lease.epoch(),
            backend: record.backend.clone(),
            image: record.spec.image.clone(),
            session_key: record.key.clone(),
            created_at: record.created_at,
            updated_at: record.updated_at,
            labels: record.spec.labels.clone(),
            idle_since: record.idle_since,
            reason: record.reason.clone(),
            forked_from: record.forked_from.clone(),
            kept: record.kept.as_ref().filter(|_| record.state.is_live()).map(view),
        }
    }
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let (caller, keep) = (&call.caller, engine.policy().hibernate_keep);
    let kept = u64::try_from(LOST_KEPT.as_millis()).unwrap_or(u64::MAX);
    let expired_since = Timestamp::from_millis(engine.records().observed()?.as_millis().saturating_sub(kept));
    let which = if input.all { Which::All } else { Which::Shown { expired_since } };
    let max = input.max.unwrap_or(DEFAULT);
    if !(1..=MOST).contains(&max) {
        return Err(Error::invalid("max", format!("must be 1 to {MOST}")));
    }
    let mut records = engine.records().store().newest(caller.tenant.as_ref(), which, max + 1)?;
    let more = records.len() > max;
    records.truncate(max);
    records.retain(|record| engine.access().shows(caller, record));
    Ok(Output { sandboxes: records.iter().rev().map(|record| Summary::of(record, keep)).collect(), more })
}
