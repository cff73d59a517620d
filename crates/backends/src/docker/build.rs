//! Builds images with the container engine's own builder.
//!
//! Uses the classic builder even if there is BuildKit: only the classic one bounds the memory and the CPU of steps,
//! and it ignores `# syntax=`, by which a Dockerfile picks its own program to run as the builder.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;

use bollard::auth::DockerCredentials;
use bollard::body_try_stream;
use bollard::models::BuildInfo;
use bollard::query_parameters::{BuildImageOptions, BuildImageOptionsBuilder};
use coracle_core::image::build::Cache;
use coracle_core::image::{Builder, Progress, Recipe, Reference, Step, Stored};
use coracle_core::{Error, Kind, Result};
use coracle_sys::rustix::fs::OFlags;
use futures_util::StreamExt;

use super::images::{Feed, feed};
use super::patience::UPLOAD;
use super::{Docker, images};
use crate::context::Context;
use crate::steps::{self, Steps};

/// The kernel counts CPU time in periods of this many microseconds.
const CPU_PERIOD: i32 = 100_000;
/// A Dockerfile longer than this is not searched for the registries it names.
const DOCKERFILE_MAX: u64 = 1 << 20;
/// Most base images of a build to look for credentials for.
const BASES_MAX: usize = 32;

impl Builder for Docker {
    fn build(&self, recipe: &Recipe, progress: &dyn Progress) -> Result<Stored> {
        let context = Context::open(recipe)?;
        let options = options(recipe, context.dockerfile())?;
        let credentials = self.credentials_of_bases(&context)?;
        let (feed, body) = feed(move |into| context.pack(into));
        let mut steps = Steps::default();
        let built =
            self.client.ask_until(&progress.cancel(), "build an image", async |docker: bollard::Docker| {
                let docker = docker.with_timeout(UPLOAD);
                let mut lines = docker.build_image(options, Some(credentials), Some(body_try_stream(body)));
                while let Some(line) = lines.next().await {
                    for line in steps.hear(&text(&line?)) {
                        progress.report(&Step::Said { line });
                    }
                }
                Ok(())
            });
        progress.cancel().check()?;
        finish(recipe, feed, built, steps)?;
        self.stored(&recipe.tag)
    }

    fn export(&self, reference: &Reference) -> Result<File> {
        let failed =
            |error: std::io::Error| Error::internal("could not use a temporary file for an image", error);
        let nameless = OFlags::TMPFILE.bits().cast_signed();
        let mut options = File::options();
        let opened =
            options.read(true).write(true).custom_flags(nameless).mode(0o600).open(self.config.home.path());
        let mut file = opened.map_err(failed)?;
        let name = reference.to_string();
        self.client.ask(&format!("export image `{name}`"), async |docker: bollard::Docker| {
            let mut chunks = std::pin::pin!(docker.export_image(&name));
            while let Some(chunk) = chunks.next().await {
                file.write_all(&chunk?)?;
            }
            Ok(())
        })?;
        file.rewind().map_err(failed)?;
        Ok(file)
    }
}

impl Docker {
    /// Returns the user's credentials for the registries that a Dockerfile starts from, and for no others.
    fn credentials_of_bases(&self, context: &Context) -> Result<HashMap<String, DockerCredentials>> {
        let mut text = String::new();
        let read = context.description().and_then(|file| file.take(DOCKERFILE_MAX).read_to_string(&mut text));
        if read.is_err() {
            // The builder will report what is wrong with it.
            return Ok(HashMap::new());
        }
        let mut found = HashMap::new();
        for reference in steps::bases(&text).into_iter().take(BASES_MAX) {
            if let Some(credentials) = images::credentials(self, reference.registry())? {
                found.insert(credentials.serveraddress.clone().unwrap_or_default(), credentials);
            }
        }
        Ok(found)
    }
}

fn options(recipe: &Recipe, dockerfile: &str) -> Result<BuildImageOptions> {
    let arguments: HashMap<_, _> =
        recipe.arguments.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let memory = memory(recipe.memory_mb)?;
    let quota = i32::try_from(recipe.cpu_millicores.saturating_mul(CPU_PERIOD as u64) / 1000);
    Ok(BuildImageOptionsBuilder::default()
        .dockerfile(dockerfile)
        .t(&recipe.tag.to_string())
        .buildargs(&arguments)
        .target(recipe.target.as_deref().unwrap_or_default())
        .nocache(recipe.cache == Cache::Ignored)
        .memory(memory)
        // As much as memory alone: no swap beside it.
        .memswap(memory)
        .cpuperiod(CPU_PERIOD)
        .cpuquota(quota.unwrap_or(i32::MAX))
        // Remove the containers of all steps, however the build ended.
        .rm(true)
        .forcerm(true)
        .build())
}

/// The client library counts in 32 bits: 2 GiB less one byte is the most it can ask for.
fn memory(megabytes: u64) -> Result<i32> {
    match megabytes {
        2048 => Ok(i32::MAX),
        _ => i32::try_from(megabytes << 20).map_err(|_| {
            Error::new(Kind::Unsupported, format!("steps cannot be given {megabytes} MB of memory"))
                .hint("the most an engine's builder can be asked for is 2048 MB")
                .detail("field", "memory_mb")
        }),
    }
}

/// Returns the result of the build. A failure on our side comes first, because the container engine only saw its
/// effect.
fn finish(recipe: &Recipe, feed: Feed, built: Result<()>, steps: Steps) -> Result<()> {
    if let Some(error) = feed.failure() {
        let message = format!("could not send the context `{}`", recipe.context.display());
        return Err(Error::new(Kind::Invalid, message).detail("field", "context").caused_by(error));
    }
    match built {
        Ok(()) if steps.succeeded() => Ok(()),
        Ok(()) => Err(steps.failure(&recipe.tag, "the engine ended without an image")),
        Err(error) if matches!(error.kind, Kind::NotAvailable) && steps.is_silent() => Err(error),
        Err(error) => Err(steps.failure(&recipe.tag, &cause(&error))),
    }
}

/// Returns the text of a line; leaves out the progress of layers.
fn text(line: &BuildInfo) -> String {
    let status = line.status.as_ref().filter(|_| line.id.is_none());
    let status = status.map(|status| format!("{status}\n")).unwrap_or_default();
    format!("{}{status}", line.stream.as_deref().unwrap_or_default())
}

/// Returns the container engine's own message of a failure.
fn cause(error: &Error) -> String {
    let chain = error.chain();
    let (_, said) = chain.split_once("): ").unwrap_or(("", &chain));
    said.trim_start_matches("Docker stream error: ").to_owned()
}
