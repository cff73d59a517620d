//! `sandbox_open`: returns the sandbox of a session, making it if there is none.

use coracle_core::install::{self, Project};
use coracle_core::mount::{MountInput, Source};
use coracle_core::repo::RepoPlace;
use coracle_core::selection::Refusal;
use coracle_core::spec::{SpecInput, WORKSPACE};
use coracle_core::{Epoch, Error, Kind, Record, Result, RunId, SandboxId, SessionKey, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Repeat, Scope, Set, sandboxes_in};
use crate::lifecycle::sessions::{Existing, missing_walls};
use crate::{Call, Engine};

pub const FACTS: Facts = Facts::changes(
    "sandbox_open",
    "Open a sandbox",
    "Returns the sandbox of a session, making it if there is none",
)
// Without a key each call makes another; replacing it again would end what the first answer named.
.repeats(Repeat::If(|input| !input["session_key"].is_null() && input["replace"] != true))
.for_models(Model::Spec(&["session_key"]))
// One that was there before is not this client's to close.
.making(|output| match output["created"] == true {
    true => sandboxes_in(&output["sandbox_id"]),
    false => Vec::new(),
})
.among(Set::Code)
.within(Scope::Everybody)
.waking();

// Serde documents that an outer `deny_unknown_fields` does not go with `flatten`; what does not work is a flattened
// map or a second flattened struct. For one struct it does, and a test holds it to that.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The name the sandbox is found again by. Without it every call makes a new one.
    #[serde(default)]
    pub session_key: Option<SessionKey>,
    /// Closes the sandbox that has the key, whatever it is like, and makes a new one.
    #[serde(default)]
    pub replace: bool,
    /// What the sandbox shall be. Where one with the key exists, written fields that differ from it are a conflict, and
    /// others are not compared.
    #[serde(flatten)]
    pub spec: SpecInput,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub sandbox_id: SandboxId,
    pub image: String,
    /// What the image was when the sandbox was made, whatever its name leads to now; the `host` image has none.
    pub image_digest: Option<String>,
    pub workdir: String,
    pub mounts: Vec<MountInput>,
    /// Where it works, if it works on a repository.
    pub repo: Option<RepoPlace>,
    /// False if it was there already.
    pub created: bool,
    pub owner: Option<RunId>,
    pub epoch: Epoch,
    pub backend: String,
    /// Backends that were to be used before that one, and why they were not.
    pub refused: Vec<Refusal>,
    pub state: State,
    /// Limits and walls that are not enforced, with the reason.
    pub missing: Vec<String>,
    /// What became of installing the repository's dependencies; absent where none were to be installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<install::Report>,
}

impl Output {
    fn of(record: Record, created: bool, install: Option<install::Report>) -> Self {
        Self {
            install,
            missing: missing_walls(&record),
            workdir: record.workdir().to_owned(),
            image_digest: record.image.and_then(|image| image.digest),
            mounts: record.spec.mounts.into_iter().map(Into::into).collect(),
            repo: record.repo,
            sandbox_id: record.id,
            image: record.spec.image,
            created,
            owner: record.lease.owner().cloned(),
            epoch: record.lease.epoch(),
            backend: record.backend,
            // What else the machine has, and what is wrong with it, is not for tenants.
            refused: if record.tenant.is_none() { record.refused } else { Vec::new() },
            state: record.state,
        }
    }
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let existing = if input.replace { Existing::Replace } else { Existing::Keep };
    let wish = engine.access().wish_for(&call.caller, input.spec)?;
    let mut session = match &input.session_key {
        Some(key) => engine.lifecycle().open_by_key(call, key, &wish, existing)?,
        None if input.replace => {
            return Err(Error::invalid("replace", "needs a `session_key`: without one nothing is replaced"));
        }
        None => engine.lifecycle().open_session(call, &wish.spec)?,
    };
    session.cool_down()?;
    if input.session_key.is_none()
        && let Err(error) = call.cancel.check()
    {
        // Its caller is gone and would never learn of it.
        engine.lifecycle().dismiss(&call.caller.of_its_own(), &session.record.id)?;
        return Err(error);
    }
    let (record, created) = (session.record, session.created);
    // The connection of the session would be one more that waits.
    drop(session.guest.take());
    let install = install_in(engine, call, &record, created)?;
    Ok(Output::of(record, created, install))
}

/// Installs the dependencies of a sandbox's repository. Where they are required and that fails, a sandbox that was made
/// for this call is removed.
fn install_in(
    engine: &Engine,
    call: &Call,
    record: &Record,
    created: bool,
) -> Result<Option<install::Report>> {
    let mode = record.spec.install.unwrap_or_default();
    let (Some(project), false) = (project_of(record), mode == install::Mode::Off) else { return Ok(None) };
    if let Some(report) = &record.install {
        return Ok(Some(report.clone()));
    }
    let installed = engine.packages().install(call, &record.id, &project).and_then(|report| {
        match mode == install::Mode::Required && report.fails() {
            true => Err(not_installed(&report)),
            false => Ok(report),
        }
    });
    match installed {
        Ok(report) => Ok(Some(report)),
        Err(error) if created => {
            engine.lifecycle().dismiss(&call.caller.of_its_own(), &record.id)?;
            Err(error)
        }
        Err(error) => Err(error.detail("sandbox_id", record.id.as_str())),
    }
}

/// Returns whose packages a sandbox gets: those of its repository, or of the directory or volume it works in if its caller
/// wants them.
fn project_of(record: &Record) -> Option<Project> {
    if let Some(place) = &record.repo {
        return Some(Project { tenant: record.tenant.clone(), repo: place.repo_id.to_string() });
    }
    record.spec.install?;
    let workspace = record.spec.mounts.iter().find(|mount| mount.target == WORKSPACE)?;
    let repo = match &workspace.source {
        Source::Directory(path) => format!("directory {path}"),
        Source::Volume(name) => format!("volume {name}"),
    };
    Some(Project { tenant: record.tenant.clone(), repo })
}

fn not_installed(report: &install::Report) -> Error {
    let reason = report.reason.as_deref().unwrap_or("no reason is known");
    let error = Error::new(Kind::ExecutionFailed, format!("could not install the dependencies: {reason}"))
        .detail("install", serde_json::to_value(report).unwrap_or_default());
    match &report.hint {
        // Its exec goes with the sandbox.
        Some(hint) if report.exec_id.is_none() => error.hint(hint.clone()),
        _ => error.hint("open it with `install: auto` to look at what is there"),
    }
}
