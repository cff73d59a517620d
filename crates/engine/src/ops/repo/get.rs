//! `repo_get`: says what is known of a repository: its branches and tags, how large it is.

use coracle_core::Result;
use coracle_core::repo::Ref;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Shown, shown};
use crate::catalogue::{Answer, Facts, Model, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts = Facts::reads("repo_get", "Get a repository", "Says what is known of a repository")
    .among(Set::Repos)
    .answering(Answer::Measured)
    .within(Scope::Everybody)
    .for_models(Model::AllFields);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name or id.
    pub repo: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    #[serde(flatten)]
    pub repo: Shown,
    /// Branches and tags, by name.
    pub refs: Vec<Ref>,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let repo = engine.repositories().find(&call.caller, &input.repo)?;
    let refs = engine.repositories().port().heads(&repo.id)?.refs;
    Ok(Output { repo: shown(engine, &repo)?, refs })
}
