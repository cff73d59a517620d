//! The root of a container: an image of the container engine.

use std::os::unix::fs::MetadataExt;

use bollard::models::ImageConfig;
use coracle_core::image::{self, HOST, Progress, Reference};
use coracle_core::mount::Source;
use coracle_core::spec::WORKSPACE;
use coracle_core::{Error, Kind, Result, Spec};
use serde::{Deserialize, Serialize};

use super::images::missing;
use super::{Docker, images};

/// The root of one container.
#[derive(Debug, Serialize, Deserialize)]
pub struct Root {
    /// The container engine's id of the image, which does not depend on its names.
    pub id: String,
    pub config: image::Config,
    pub env: Vec<(String, String)>,
}

/// Pulls the image the spec names, if the container engine does not have it.
pub fn prepare(docker: &Docker, spec: &Spec, progress: &dyn Progress) -> Result<()> {
    docker.bring(&name(docker, spec)?, progress)
}

/// Finds the image the spec names.
pub fn find(docker: &Docker, spec: &Spec) -> Result<Root> {
    let name = name(docker, spec)?;
    let found = docker.inspect(&name.to_string())?.ok_or_else(|| missing(&name.to_string()))?;
    let digest = images::digest(&name, &found);
    let id = found.id.clone().ok_or_else(|| Error::new(Kind::Internal, "the engine's image has no id"))?;
    let config = found.config.unwrap_or_default();
    let mut root = Root { env: variables(&config), config: describe(digest, config), id };
    if spec.user.is_none() {
        root.config.user = owner(spec).unwrap_or(root.config.user);
    }
    Ok(root)
}

/// Returns the owner of the caller's own workspace, if there is one: a container engine shows files with the owners
/// they have, so no other user could write to them, neither root without capabilities nor the image's user. Root
/// needs no name.
fn owner(spec: &Spec) -> Option<Option<String>> {
    let workspace = spec.mounts.iter().find(|mount| mount.target == WORKSPACE)?;
    let Source::Directory(path) = &workspace.source else { return None };
    let found = std::fs::metadata(path).ok()?;
    Some((found.uid() != 0).then(|| format!("{}:{}", found.uid(), found.gid())))
}

/// Returns the image's name at the container engine. For `host`, it is the image that the operator chose.
pub fn name(docker: &Docker, spec: &Spec) -> Result<Reference> {
    if spec.image != HOST {
        return spec.image.parse();
    }
    let chosen = docker.config.engines.image.as_ref().ok_or_else(|| {
        Error::new(Kind::Unsupported, format!("backend `{}` has no image `{HOST}`", docker.name))
            .hint("name one with `--image`, or the one to use for it in the setting `engines.image`")
            .detail("backend", docker.name.as_str())
    })?;
    chosen.parse()
}

fn variables(config: &ImageConfig) -> Vec<(String, String)> {
    let pair = |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    config.env.iter().flatten().filter_map(pair).collect()
}

fn describe(digest: String, config: ImageConfig) -> image::Config {
    let written = |text: Option<String>| text.filter(|text| !text.is_empty());
    image::Config {
        digest: Some(digest),
        workdir: written(config.working_dir).filter(|workdir| workdir.starts_with('/') && workdir != "/"),
        user: written(config.user),
        entrypoint: config.entrypoint.unwrap_or_default(),
        cmd: config.cmd.unwrap_or_default(),
    }
}
