//! `repo_add`: makes a repository that clients of git push to and clone from: empty, or with what another one has.

use coracle_core::repo::RepoName;
use coracle_core::{Error, Result};
use schemars::JsonSchema;
use serde::Deserialize;

use super::errand::{Url, is_url};
use super::{Shown, shown};
use crate::catalogue::{Facts, Model, Reach, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts =
    Facts::changes("repo_add", "Add a repository", "Makes a repository to push to and clone from")
        .among(Set::Repos)
        .reaching(Reach::World)
        .within(Scope::Everybody)
        .for_models(Model::Hidden);

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name; unique within the tenant.
    pub name: RepoName,
    /// Where its branches and tags come from: an absolute path of the machine, or an `https` URL. Empty if absent.
    #[serde(default)]
    pub from: Option<String>,
    /// The password for that URL. Kept and shown nowhere.
    #[serde(default)]
    pub token: Option<String>,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("name", &self.name).field("from", &self.from).finish_non_exhaustive()
    }
}

pub type Output = Shown;

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    engine.headroom().expect("make a repository")?;
    let repositories = engine.repositories();
    let take = |bundle| repositories.add_from(&call.caller, &input.name, bundle, &call.cancel);
    let repo = match &input.from {
        None => repositories.add(&call.caller, &input.name)?,
        Some(url) if is_url(url) => {
            engine.bundle_of_url(call, &url.parse::<Url>()?, input.token.clone(), take)?
        }
        Some(path) if path.starts_with('/') => engine.bundle_of_path(call, path, take)?,
        Some(_) => return Err(Error::invalid("from", "must be an absolute path or an `https` URL")),
    };
    shown(engine, &repo)
}
