//! `repo_remove`: removes a repository with all that is in it. Refused while a sandbox works on one of its branches.

use coracle_core::{Error, Kind, RepoId, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts =
    Facts::destroys("repo_remove", "Remove a repository", "Removes a repository with all that is in it")
        .among(Set::Repos)
        .within(Scope::Everybody)
        .for_models(Model::Hidden);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name or id.
    pub repo: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub repo_id: RepoId,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let repositories = engine.repositories();
    let repo = repositories.find(&call.caller, &input.repo)?;
    let busy = repositories.busy(&repo)?;
    if let Some(branch) = busy.first() {
        let error = format!("could not remove repository `{}`: a sandbox works on `{branch}`", repo.name);
        return Err(Error::new(Kind::Conflict, error).hint("close its sandboxes first"));
    }
    engine.headroom().freeing(|| repositories.port().remove(&repo.id))?;
    Ok(Output { repo_id: repo.id })
}
