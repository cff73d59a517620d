//! Building an image from a Dockerfile: the request, and the port to backends that build.
//!
//! A context may come from a stranger's repository. A builder sends only files in the directory, within bounds, and
//! never follows a link out of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Progress, Reference, Stored};
use crate::error::{Error, Result};
use crate::spec::{check_absolute, check_env, check_path};

/// The default memory of each build step.
const MEMORY_MB: u64 = 2048;
const CPU_MILLICORES: u64 = 2000;
/// No shell starts with less than this.
const MEMORY_MB_MIN: u64 = 16;
const CPU_MILLICORES_MIN: u64 = 10;

/// A build request as a caller writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecipeInput {
    /// An absolute path on the machine: the directory whose files the build may use.
    pub context: String,
    /// A path in the context; `Dockerfile` if absent, or `Containerfile` if only that is there.
    #[serde(default)]
    pub dockerfile: Option<String>,
    /// The name the image gets.
    pub tag: String,
    #[serde(default)]
    pub build_args: BTreeMap<String, String>,
    /// The stage to build, of several; the last if absent.
    #[serde(default)]
    pub target: Option<String>,
    /// Does every step again.
    #[serde(default)]
    pub no_cache: bool,
    /// CPU that all steps together may use.
    #[serde(default)]
    pub cpu_millicores: Option<u64>,
    #[serde(default)]
    pub memory_mb: Option<u64>,
}

/// A checked request for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    pub context: PathBuf,
    pub dockerfile: Option<String>,
    pub tag: Reference,
    pub arguments: BTreeMap<String, String>,
    pub target: Option<String>,
    pub cache: Cache,
    pub cpu_millicores: u64,
    pub memory_mb: u64,
}

/// Whether the build may reuse results of earlier builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    Used,
    Ignored,
}

impl Recipe {
    /// Checks what a caller wrote and fills in the defaults. `most` holds the operator's limits.
    pub fn resolve(input: RecipeInput, most: &crate::limits::Ranges) -> Result<Self> {
        check_absolute("context", &input.context)?;
        check_env("build_args", &input.build_args)?;
        if let Some(dockerfile) = &input.dockerfile {
            check_inside(dockerfile)?;
        }
        if let Some(target) = &input.target {
            check_target(target)?;
        }
        let tag: Reference = input.tag.parse().map_err(|error: Error| error.detail("field", "tag"))?;
        if tag.digest().is_some() {
            return Err(Error::invalid("tag", "has a digest, which only the finished image has"));
        }
        let (cpu, memory) = (most.cpu_millicores.max, most.memory_mb.max);
        Ok(Self {
            context: input.context.into(),
            dockerfile: input.dockerfile,
            tag,
            arguments: input.build_args,
            target: input.target,
            cache: if input.no_cache { Cache::Ignored } else { Cache::Used },
            cpu_millicores: within(
                "cpu_millicores",
                input.cpu_millicores.unwrap_or(CPU_MILLICORES.min(cpu)),
                CPU_MILLICORES_MIN,
                cpu,
            )?,
            memory_mb: within(
                "memory_mb",
                input.memory_mb.unwrap_or(MEMORY_MB.min(memory)),
                MEMORY_MB_MIN,
                memory,
            )?,
        })
    }
}

/// Builds images.
pub trait Builder: Send + Sync {
    /// Builds an image into the backend's own images and reports the output of its steps as it appears.
    ///
    /// `execution_failed` with `details.step` where a step fails, `invalid` where the Dockerfile or the context is
    /// not usable, `image_not_found` where the base image cannot be found. On error the tag names what it named
    /// before. If the caller dies, the build ends with it.
    fn build(&self, recipe: &Recipe, progress: &dyn Progress) -> Result<Stored>;

    /// Returns an image of the backend as `docker save` writes it, in a file without a name.
    fn export(&self, reference: &Reference) -> Result<File>;
}

fn within(field: &str, value: u64, least: u64, most: u64) -> Result<u64> {
    match (least..=most).contains(&value) {
        true => Ok(value),
        false => Err(Error::invalid(field, format!("is {value}, outside {least} to {most}"))),
    }
}

/// Refuses a path that could lead out of the context, however it is resolved.
fn check_inside(path: &str) -> Result<()> {
    check_path("dockerfile", path)?;
    let plain = |word: &str| !word.is_empty() && word != "." && word != "..";
    match path.split('/').all(plain) {
        true => Ok(()),
        false => Err(Error::invalid("dockerfile", "must be a path in the context, without `.` and `..`")),
    }
}

fn check_target(target: &str) -> Result<()> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match !target.is_empty() && target.len() <= 128 && target.bytes().all(letter) {
        true => Ok(()),
        false => Err(Error::invalid("target", "is no name of a stage")),
    }
}
