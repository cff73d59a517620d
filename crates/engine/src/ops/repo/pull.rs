//! `repo_pull`: brings branches and tags from a server. Branches only move forward.

use coracle_core::Result;
use coracle_core::repo::{Oid, Pushed, RefEnd, RefName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::errand::Url;
use crate::catalogue::{Facts, Model, Reach, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts =
    Facts::changes("repo_pull", "Pull into a repository", "Brings branches and tags from a server")
        .among(Set::Repos)
        .reaching(Reach::World)
        .within(Scope::Everybody)
        .for_models(Model::Hidden);

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name or id.
    pub repo: String,
    /// The `https` URL of the other repository.
    pub url: String,
    /// The password for it. Kept and shown nowhere.
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
    /// The refs that differ from the server's.
    pub refs: Vec<Change>,
}

/// What became of one ref.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Change {
    pub name: RefName,
    /// What it led to; absent if it is new.
    pub old: Option<Oid>,
    /// What it leads to on the server.
    pub new: Option<Oid>,
    /// Why it was not changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl From<Pushed> for Change {
    fn from(Pushed { change, end }: Pushed) -> Self {
        let refused = match end {
            RefEnd::Done => None,
            RefEnd::Refused(why) => Some(why),
        };
        Self { name: change.name, old: change.old, new: change.new, refused }
    }
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    engine.headroom().expect("pull")?;
    let repositories = engine.repositories();
    let repo = repositories.find(&call.caller, &input.repo)?;
    let url: Url = input.url.parse()?;
    let take = |bundle| repositories.update_from(&repo, bundle, &call.cancel);
    let pushed = engine.bundle_of_url(call, &url, input.token.clone(), take)?;
    Ok(Output { refs: pushed.into_iter().map(Change::from).collect() })
}
