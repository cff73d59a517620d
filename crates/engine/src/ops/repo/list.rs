//! `repo_list`: lists hosted repositories, by name.

use coracle_core::Result;
use coracle_core::repo::Repo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Answer, Facts, Model, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts = Facts::reads("repo_list", "List repositories", "Lists the hosted repositories")
    .among(Set::Repos)
    .answering(Answer::Measured)
    .within(Scope::Everybody)
    .for_models(Model::AllFields);

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub repos: Vec<Repo>,
}

pub fn call(engine: &Engine, call: &Call, _: Input) -> Result<Output> {
    Ok(Output { repos: engine.repositories().list(&call.caller)? })
}
