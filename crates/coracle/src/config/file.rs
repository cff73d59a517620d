//! The settings file. An absent setting keeps its default; an unknown one is refused, not ignored.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_core::bytes::Bytes;
use coracle_core::ceiling::Choice;
use coracle_core::complaint::plainly;
use coracle_core::limits::Range;
use coracle_core::repo::{Author, BranchName};
use coracle_core::spec::{Runtime, SpecInput};
use coracle_core::{Error, Kind, Result, duration};
use serde::{Deserialize, Deserializer};

/// The contents of `config.toml`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    pub image: Option<String>,
    #[serde(deserialize_with = "span")]
    pub exec_timeout: Option<Duration>,
    /// `none` removes the maximum.
    #[serde(deserialize_with = "span_or_none")]
    pub exec_timeout_max: Option<Option<Duration>>,
    #[serde(deserialize_with = "span")]
    pub grace: Option<Duration>,
    /// Bytes of output in one answer.
    pub inline_output: Option<u64>,
    pub spares: Option<usize>,
    pub backend: Option<String>,
    pub fallback: Option<Vec<String>>,
    /// The order of `auto`.
    pub backends: Option<Vec<String>>,
    pub projects: Projects,
    pub limits: Limits,
    /// The images of languages.
    pub runtimes: BTreeMap<Runtime, String>,
    pub images: Images,
    pub mounts: AllowList,
    pub registries: Registries,
    pub network: Network,
    pub engines: Engines,
    pub telemetry: Telemetry,
    pub logs: Logs,
    pub hibernate: Hibernate,
    pub install: Install,
    pub repos: Repos,
    pub storage: Storage,
    pub serve: Serve,
    /// What models without a token get at `/mcp`.
    pub mcp: Option<Mcp>,
    /// The rules of each tenant, by name.
    pub tenants: BTreeMap<String, Tenant>,
}

/// The table `[serve]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Serve {
    pub hosts: Option<Vec<String>>,
    pub origins: Option<Vec<String>>,
}

/// The table `[mcp]`: a sandbox as `sandbox_open` takes it, and which fields models may choose.
// On `flatten` with `deny_unknown_fields`, see `sandbox_open`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mcp {
    #[serde(default)]
    pub let_choose: Vec<Choice>,
    #[serde(flatten)]
    pub spec: SpecInput,
}

/// A table `[tenants.NAME]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tenant {
    pub images: AllowList,
    pub limits: Limits,
    pub sandboxes: Option<usize>,
    pub hibernated: Option<usize>,
    #[serde(deserialize_with = "size")]
    pub storage: Option<Bytes>,
    pub rate: Option<u32>,
    pub burst: Option<u32>,
}

/// The table `[images]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Images {
    pub allow: Option<Vec<String>>,
    pub prefix: Option<String>,
    pub prepull: Option<Vec<String>>,
}

/// The table `[projects]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Projects {
    pub read: Option<bool>,
    pub backends: Option<Vec<String>>,
}

/// The tables `[mounts]` and `[tenants.NAME.images]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AllowList {
    pub allow: Option<Vec<String>>,
}

/// The table `[registries]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Registries {
    pub plain_http: Option<Vec<String>>,
    pub private: Option<Vec<String>>,
    pub docker_config: Option<PathBuf>,
    pub extra_roots: Option<PathBuf>,
    pub grace_seconds: Option<u32>,
    pub slowest_kib: Option<u32>,
}

/// The table `[network]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    pub max: Option<String>,
    pub private: Option<Vec<String>>,
    pub connections: Option<u32>,
    pub names_per_second: Option<u32>,
    pub bandwidth_mbit: Option<u32>,
}

/// The table `[engines]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Engines {
    pub docker_host: Option<String>,
    pub docker_context: Option<String>,
    pub docker_tls_verify: Option<bool>,
    pub docker_cert_path: Option<PathBuf>,
    pub container_host: Option<String>,
    pub ssh: Option<Vec<String>>,
    pub image: Option<String>,
}

/// The table `[telemetry]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    pub otlp_endpoint: Option<String>,
    pub service_name: Option<String>,
}

/// The table `[logs]`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Logs {
    #[serde(deserialize_with = "span")]
    pub retention: Option<Duration>,
}

/// The table `[hibernate]`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hibernate {
    /// `forever` keeps sleepers without end.
    #[serde(deserialize_with = "span_or_forever")]
    pub keep: Option<Option<Duration>>,
}

/// The table `[install]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Install {
    /// What fillers may reach, by package manager.
    pub network: BTreeMap<String, String>,
    /// The registries fillers ask, by package manager.
    pub registry: BTreeMap<String, String>,
    #[serde(deserialize_with = "span")]
    pub timeout: Option<Duration>,
    #[serde(deserialize_with = "size")]
    pub cache_max: Option<Bytes>,
    #[serde(deserialize_with = "size")]
    pub total: Option<Bytes>,
    #[serde(deserialize_with = "span")]
    pub keep: Option<Duration>,
}

/// The table `[repos]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Repos {
    /// The beginning of branches that coracle makes.
    pub prefix: Option<BranchName>,
    /// Who commits in sandboxes, as `NAME <EMAIL>`.
    #[serde(deserialize_with = "author")]
    pub author: Option<Author>,
    #[serde(deserialize_with = "size")]
    pub push_max: Option<Bytes>,
}

fn author<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Author>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(|error: coracle_core::Error| serde::de::Error::custom(error.message))
}

/// The table `[storage]`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Storage {
    #[serde(deserialize_with = "size")]
    pub reserve: Option<Bytes>,
}

/// The table `[limits]`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub cpu_millicores: PartialRange,
    pub memory_mb: PartialRange,
    pub pids: PartialRange,
    pub timeout_seconds: PartialRange,
    pub workspace_mb: PartialRange,
    pub inodes: PartialRange,
    pub output_bytes: PartialRange,
}

/// A range that may be written in part: `{ default = 512 }`, `{ max = 1024 }` or both.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PartialRange {
    pub default: Option<u64>,
    pub max: Option<u64>,
}

impl PartialRange {
    /// Tells whether the file has any part of it.
    pub fn is_written(self) -> bool {
        self.default.is_some() || self.max.is_some()
    }

    /// Fills in the rest. A lower maximum alone lowers the default, too.
    pub fn over(self, range: Range) -> Range {
        let max = self.max.unwrap_or(range.max);
        Range { default: self.default.unwrap_or(range.default.min(max)), max }
    }
}

/// Reads the first of the files that exists.
pub fn read(candidates: Vec<PathBuf>) -> Result<Option<(PathBuf, File)>> {
    for path in candidates {
        match std::fs::read_to_string(&path) {
            Ok(text) => return parse(&path, &text).map(|file| Some((path, file))),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => {
                return Err(Error::new(
                    Kind::Invalid,
                    format!("could not read settings `{}`", path.display()),
                )
                .caused_by(error));
            }
        }
    }
    Ok(None)
}

fn parse(path: &Path, text: &str) -> Result<File> {
    toml::from_str(text).map_err(|error| {
        Error::new(
            Kind::Invalid,
            format!("settings `{}` are not valid{}", path.display(), mistake(&error, text)),
        )
        .hint("`coracle config` without this file shows every name there is")
    })
}

/// Returns where in the file the mistake is, and what it is.
fn mistake(error: &toml::de::Error, text: &str) -> String {
    // TOML calls a map a table.
    let what = plainly(error.message()).replace("an object", "a table");
    let what = if what.starts_with("is ") { format!("this {what}") } else { what };
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return format!(": {what}");
    };
    let number = before.matches('\n').count();
    let line = text.lines().nth(number).unwrap_or_default().trim();
    format!(" in line {}, `{line}`: {what}", number + 1)
}

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    duration::parse(&text).map(Some).map_err(serde::de::Error::custom)
}

fn span_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Duration>>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "none" => Ok(Some(None)),
        text => duration::parse(text).map(|span| Some(Some(span))).map_err(serde::de::Error::custom),
    }
}

fn span_or_forever<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Duration>>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "forever" => Ok(Some(None)),
        text => duration::parse(text).map(|span| Some(Some(span))).map_err(serde::de::Error::custom),
    }
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}
