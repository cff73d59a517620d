//! `repo_push`: pushes a branch to a server, by the machine's git in a sandbox that reads the repository.

use coracle_core::repo::BranchName;
use coracle_core::{Error, Kind, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::errand::Url;
use crate::catalogue::{Facts, Model, Reach, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts = Facts::changes("repo_push", "Push from a repository", "Pushes a branch to a server")
    .among(Set::Repos)
    .reaching(Reach::World)
    .within(Scope::Home("pushing to another server"))
    .for_models(Model::Hidden);

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name or id.
    pub repo: String,
    /// The `https` URL of the other repository.
    pub url: String,
    pub branch: BranchName,
    /// The branch on the server; the same name if absent.
    #[serde(default)]
    pub to: Option<BranchName>,
    /// The password for the URL. Kept and shown nowhere.
    #[serde(default)]
    pub token: Option<String>,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("repo", &self.repo).field("url", &self.url).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub branch: BranchName,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let port = engine.repositories().port();
    let repo = engine.repositories().find(&call.caller, &input.repo)?;
    let url: Url = input.url.parse()?;
    if port.heads(&repo.id)?.branch(&input.branch).is_none() {
        let error = format!("there is no branch `{}` in repository `{}`", input.branch, repo.name);
        return Err(Error::new(Kind::NotFound, error).detail("branch", input.branch.as_str()));
    }
    let to = input.to.as_ref().unwrap_or(&input.branch);
    let refspec = format!("{}:{}", input.branch.full(), to.full());
    let directory = port.directory(&repo.id)?;
    engine.push_to(call, &directory.to_string_lossy(), &url, input.token.clone(), &refspec)?;
    Ok(Output { branch: to.clone() })
}
