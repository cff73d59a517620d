//! What a container's root is made of: an image the engine has.

use bollard::models::{ImageConfig, ImageInspect};
use bollard::query_parameters::CreateImageOptionsBuilder;
use coracle_core::image::{self, HOST, Progress};
use coracle_core::{Error, Kind, Result, Spec};
use futures_util::StreamExt;

use super::{Docker, failure};

/// The root of one container.
#[derive(Debug)]
pub struct Root {
    /// What the engine calls it, whatever names lead to it.
    pub id: String,
    pub config: image::Config,
    pub env: Vec<(String, String)>,
}

/// Brings the image the spec names, if the engine does not have it.
pub fn prepare(docker: &Docker, spec: &Spec, _progress: &dyn Progress) -> Result<()> {
    let name = name(docker, spec)?;
    if inspect(docker, &name)?.is_some() {
        return Ok(());
    }
    let options = CreateImageOptionsBuilder::default().from_image(&name).build();
    let pulled = docker.client.ask("bring an image", |engine| async move {
        let mut steps = std::pin::pin!(engine.create_image(Some(options), None, None));
        while let Some(step) = steps.next().await {
            step?;
        }
        Ok(())
    });
    pulled.map_err(|error| match error.kind {
        Kind::NotAvailable => error,
        _ => missing(&name).caused_by(error),
    })
}

/// Finds the image the spec names.
pub fn find(docker: &Docker, spec: &Spec) -> Result<Root> {
    let name = name(docker, spec)?;
    let found = inspect(docker, &name)?.ok_or_else(|| missing(&name))?;
    let id = found.id.clone().ok_or_else(|| Error::new(Kind::Internal, "the engine's image has no id"))?;
    let config = found.config.unwrap_or_default();
    Ok(Root { env: variables(&config), config: describe(&id, config), id })
}

/// Returns the image by the name the engine is asked for it. What is the machine's own there is what the operator says.
fn name(docker: &Docker, spec: &Spec) -> Result<String> {
    if spec.image != HOST {
        return Ok(spec.image.clone());
    }
    docker.setting.engines.image.clone().ok_or_else(|| {
        Error::new(Kind::Unsupported, format!("backend `{}` has no image `{HOST}`", docker.name))
            .hint("name one with `--image`, or the one to use for it in the setting `engines.image`")
            .detail("backend", docker.name.as_str())
    })
}

fn inspect(docker: &Docker, name: &str) -> Result<Option<ImageInspect>> {
    docker.client.ask("look at an image", |engine| async move {
        match engine.inspect_image(name).await {
            Err(error) if failure::is_status(&error, 404) => Ok(None),
            found => found.map(Some),
        }
    })
}

fn missing(name: &str) -> Error {
    Error::new(Kind::ImageNotFound, format!("there is no image `{name}`"))
        .hint("see how its name is written, and whether its registry needs you to log in")
        .detail("image", name)
}

fn variables(config: &ImageConfig) -> Vec<(String, String)> {
    let pair = |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    config.env.iter().flatten().filter_map(pair).collect()
}

fn describe(id: &str, config: ImageConfig) -> image::Config {
    let written = |text: Option<String>| text.filter(|text| !text.is_empty());
    image::Config {
        digest: Some(id.to_owned()),
        workdir: written(config.working_dir).filter(|workdir| workdir.starts_with('/') && workdir != "/"),
        user: written(config.user),
        entrypoint: config.entrypoint.unwrap_or_default(),
        cmd: config.cmd.unwrap_or_default(),
    }
}
