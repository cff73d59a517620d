//! `sandbox_get`: shows a sandbox: its record to anyone, what goes on in it to its owner.

use std::collections::BTreeMap;
use std::time::Duration;

use coracle_core::backend::Profile;
use coracle_core::mount::MountInput;
use coracle_core::repo::RepoPlace;
use coracle_core::selection::Refusal;
use coracle_core::spec::{OnIdle, Storage};
use coracle_core::{Epoch, Limits, Network, Record, Result, RunId, SandboxId, Spec};
use coracle_wire::ExecSummary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list::Summary;
use crate::catalogue::{Answer, Facts, Model, Scope, Set};
use crate::egress::denials::Entry;
use crate::exec::progress::Progress;
use crate::guest::Guest;
use crate::{Call, Engine};

pub const FACTS: Facts = Facts::reads(
    "sandbox_get",
    "Show a sandbox",
    "Shows a sandbox: its record, and to its owner what goes on in it",
)
.among(Set::Inventory)
.answering(Answer::Measured)
.within(Scope::Everybody)
.for_models(Model::AllFields);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    #[serde(flatten)]
    pub summary: Summary,
    /// What the image was when the sandbox was made; the `host` image has none.
    pub image_digest: Option<String>,
    pub workdir: String,
    pub storage: Option<Storage>,
    pub on_idle: OnIdle,
    /// How many guests it has had: each wake starts a new one.
    pub life: u32,
    pub mounts: Vec<MountInput>,
    /// Where it works, if it works on a repository.
    pub repo: Option<RepoPlace>,
    /// What it may reach now.
    #[schemars(with = "String")]
    pub network: Network,
    #[schemars(with = "serde_json::Value")]
    pub spec: Spec,
    pub limits: Limits,
    /// Backends that were to be used before the one it is on, and why they were not.
    pub refused: Vec<Refusal>,
    /// What is enforced and what is not, as it was observed.
    pub profile: Option<Profile>,
    /// Everyone the sandbox goes back to, the owner last.
    pub holders: Vec<RunId>,
    /// Null unless the caller owns the sandbox and it is ready or paused.
    pub execs: Option<Vec<ExecView>>,
    pub guest: Option<GuestView>,
    /// What it was refused of the network; null where there is none, or for who does not own the sandbox.
    pub egress: Option<EgressView>,
}

/// What a sandbox was refused of the network.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EgressView {
    /// How often, all in all.
    pub denied: u64,
    /// The latest, oldest first.
    pub last: Vec<Entry>,
}

/// The most refusals that are shown.
const SHOWN_MAX: usize = 20;

/// One exec, in short.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ExecView {
    pub exec_id: String,
    pub cmd: Vec<String>,
    /// The epoch it was started under.
    pub epoch: Epoch,
    #[serde(flatten)]
    pub progress: Progress,
}

/// What the guest says of itself.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct GuestView {
    pub running: u64,
    pub idle_ms: u64,
    pub uptime_ms: u64,
    /// Bytes of output kept.
    pub spool_bytes: u64,
    /// Its commands stand still.
    pub paused: bool,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let (caller, keep) = (&call.caller, engine.policy().hibernate_keep);
    let record = engine.access().find_for(caller, &input.sandbox_id)?;
    let may_look = record.state.accepts_looks() && record.lease.admit(&caller.claim).is_ok();
    if !may_look {
        return Ok(view(record, keep, None));
    }
    // Paid for before the guest is waited for: an environment may be most of what is held meanwhile.
    engine.inline.expect(length(&record.spec.env))?;
    drop(record);
    match engine.access().enter_to_look(caller, &input.sandbox_id) {
        Ok(mut inside) => {
            let egress = egress(engine, &inside.record);
            Ok(Output { egress, ..view(inside.record, keep, Some(look(&mut inside.guest)?)) })
        }
        // Reaching for a guest that is gone changes the record; what it says now is the answer.
        Err(_) => Ok(view(engine.records().find(&input.sandbox_id)?, keep, None)),
    }
}

fn length(env: &BTreeMap<String, String>) -> u64 {
    env.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum()
}

fn egress(engine: &Engine, record: &Record) -> Option<EgressView> {
    if record.spec.network.is_none() {
        return None;
    }
    let mut last = engine.egress().denials(record);
    last.drain(..last.len().saturating_sub(SHOWN_MAX));
    Some(EgressView { denied: last.last().map_or(0, |entry| entry.seq), last })
}

fn look(guest: &mut Guest) -> Result<(Vec<ExecView>, GuestView)> {
    let status = guest.status()?;
    let execs = guest.execs()?.into_iter().map(Into::into).collect();
    let view = GuestView {
        running: status.running,
        idle_ms: status.idle_ms,
        uptime_ms: status.uptime_ms,
        spool_bytes: status.spool_bytes,
        paused: status.paused,
    };
    Ok((execs, view))
}

fn view(record: Record, keep: Option<Duration>, inner: Option<(Vec<ExecView>, GuestView)>) -> Output {
    let (execs, guest) = inner.unzip();
    Output {
        summary: Summary::of(&record, keep),
        workdir: record.workdir().to_owned(),
        network: record.network().clone(),
        image_digest: record.image.and_then(|image| image.digest),
        storage: record.spec.storage,
        on_idle: record.spec.on_idle(),
        life: record.life,
        mounts: record.spec.mounts.iter().cloned().map(Into::into).collect(),
        limits: record.spec.limits.clone(),
        refused: record.refused,
        repo: record.repo,
        profile: record.profile,
        holders: record.lease.holders().to_vec(),
        spec: record.spec,
        execs,
        guest,
        egress: None,
    }
}

impl From<ExecSummary> for ExecView {
    fn from(summary: ExecSummary) -> Self {
        Self {
            exec_id: summary.exec,
            cmd: summary.argv.iter().map(|argument| String::from_utf8_lossy(argument).into_owned()).collect(),
            epoch: Epoch(summary.epoch),
            progress: Progress::of(&summary.state),
        }
    }
}
