//! `sandbox_stats`: tells what sandboxes use: one, or all the caller sees.

use std::collections::BTreeSet;

use coracle_core::store::Which;
use coracle_core::usage::Usage;
use coracle_core::{Record, Result, RunId, SandboxId, SessionKey, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Answer, Facts, Model, Scope, Set};
use crate::{Call, Caller, Engine};

pub const FACTS: Facts = Facts::reads(
    "sandbox_stats",
    "Show what sandboxes use",
    "Tells what sandboxes use: time, memory, processes, files",
)
.among(Set::Inventory)
.answering(Answer::Measured)
.within(Scope::Everybody)
.for_models(Model::AllFields);

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// All that are live if absent.
    #[serde(default)]
    pub sandbox_id: Option<SandboxId>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub sandboxes: Vec<Stats>,
}

/// What one sandbox uses now. Null is what nobody here can tell.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Stats {
    pub sandbox_id: SandboxId,
    /// Null if it has none.
    #[serde(default)]
    pub session_key: Option<SessionKey>,
    pub state: State,
    pub owner: Option<RunId>,
    pub backend: String,
    #[serde(flatten)]
    pub usage: Usage,
    /// Null where memory is not limited.
    pub memory_limit_bytes: Option<u64>,
    /// Null where processes are not limited.
    pub processes_limit: Option<u64>,
    /// How often something of the network was refused; null where there is none.
    pub network_denied: Option<u64>,
    /// This and what follows is told to its owner only.
    pub execs_running: Option<u64>,
    /// Bytes of output kept.
    pub output_bytes: Option<u64>,
    pub uptime_ms: Option<u64>,
    /// How long nothing was asked of it and nothing ran. Asking for this does not count.
    pub idle_ms: Option<u64>,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let caller = &call.caller;
    let records = match &input.sandbox_id {
        Some(id) => vec![existing(engine.access().find_for(caller, id)?)?],
        None => seen(engine, caller)?,
    };
    // One that does not answer is asked once, not once for each of its sandboxes.
    let mut silent = BTreeSet::new();
    let stats = records.iter().map(|record| stats(engine, caller, record, &mut silent));
    Ok(Output { sandboxes: stats.collect() })
}

/// Refuses what has ended: it uses nothing.
fn existing(record: Record) -> Result<Record> {
    match record.state.is_ended() || record.state == State::Spare {
        true => Err(record.state.refuse(&record.id, "measure")),
        false => Ok(record),
    }
}

fn seen(engine: &Engine, caller: &Caller) -> Result<Vec<Record>> {
    let mut records = engine.records().store().newest(caller.tenant.as_ref(), Which::Live, usize::MAX)?;
    records.retain(|record| !record.is_untaken() && engine.access().shows(caller, record));
    records.reverse();
    Ok(records)
}

fn stats(engine: &Engine, caller: &Caller, record: &Record, silent: &mut BTreeSet<String>) -> Stats {
    let limits = &record.spec.limits;
    let status = match record.lease.admit(&caller.claim).is_ok() && !silent.contains(&record.backend) {
        true => engine.access().status_unnoticed(record),
        false => None,
    };
    Stats {
        sandbox_id: record.id.clone(),
        session_key: record.key.clone(),
        state: record.state,
        owner: record.lease.owner().cloned(),
        backend: record.backend.clone(),
        usage: usage(engine, record, silent),
        memory_limit_bytes: limits.memory_mb.map(|mebibytes| mebibytes << 20),
        processes_limit: limits.pids,
        network_denied: (!record.spec.network.is_none()).then(|| engine.egress().last_denial(record)),
        execs_running: status.as_ref().map(|status| status.running),
        output_bytes: status.as_ref().map(|status| status.spool_bytes),
        uptime_ms: status.as_ref().map(|status| status.uptime_ms),
        idle_ms: status.map(|status| status.idle_ms),
    }
}

fn usage(engine: &Engine, record: &Record, silent: &mut BTreeSet<String>) -> Usage {
    let (true, Some(placement)) = (record.state.accepts_looks(), &record.placement) else {
        return Usage::default();
    };
    if silent.contains(&record.backend) {
        return Usage::default();
    }
    let told = engine.placement().backend_of(record).and_then(|backend| backend.usage(&record.id, placement));
    told.unwrap_or_else(|_| {
        silent.insert(record.backend.clone());
        Usage::default()
    })
}
