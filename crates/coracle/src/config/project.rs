//! What a repository asks for: the `sandbox` block of `.openagents/project.json`.
//!
//! The author of the repository wrote it, and may be an attacker. So everything the user said overrides it, and it
//! only chooses among what the user allows: an allowed image, a backend that projects may name, limits up to the
//! maximum, and less than the user's own default where they wrote one. It cannot express mounts, the network,
//! privileges, walls or a program on the machine.

mod find;

use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_core::bytes::Bytes;
use coracle_core::complaint::plainly;
use coracle_core::limits::Range;
use coracle_core::selection::{AUTO, MACOS_CONTAINER, check_names};
use coracle_core::{Error, ImageId, Kind, Result};
use serde::Deserialize;

use super::images::check_image;
use super::layers::{Found, Layers};
use super::resolve::Resolved;
use super::{Setting, Source, setting};

pub use self::find::find;

/// What the user lets projects decide.
#[derive(Debug)]
pub struct ProjectSettings {
    pub read: Found<bool>,
    backends: Found<Option<Vec<String>>>,
}

impl ProjectSettings {
    pub(super) fn from(layers: &Layers<'_>) -> Result<Self> {
        Ok(Self {
            read: layers.pick("CORACLE_PROJECT", read_or_ignore, |file| file.projects.read, true)?,
            backends: layers
                .of_file(|file| file.projects.backends.clone().map(Some), None)
                .checked(|list| list.iter().try_for_each(|list| check_names("projects.backends", list)))?,
        })
    }

    /// Returns every setting for display.
    pub fn settings(&self) -> Vec<Setting> {
        let backends = match &self.backends.value {
            None => "all".to_owned(),
            Some(names) if names.is_empty() => "none".to_owned(),
            Some(names) => names.join(", "),
        };
        vec![
            setting("projects.read", self.read.value.to_string(), &self.read.source),
            setting("projects.backends", backends, &self.backends.source),
        ]
    }

    fn allows(&self, backend: &str) -> bool {
        self.backends.value.as_ref().is_none_or(|names| names.iter().any(|name| name == backend))
    }
}

/// A project's file, of which only one block is ours.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    sandbox: Option<Block>,
}

/// The block as written. Unknown fields are refused: a misspelt limit must not be a missing one.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Block {
    enabled: Option<bool>,
    backend: Option<Wanted>,
    image: Option<String>,
    memory_limit: Option<String>,
    cpu_limit: Option<f64>,
    timeout_ms: Option<u64>,
}

/// The backends a project may name: never a machine of its choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Wanted {
    MacosContainer,
    Native,
    Docker,
    Podman,
    Auto,
}

impl Wanted {
    fn name(self) -> &'static str {
        match self {
            Self::MacosContainer => MACOS_CONTAINER,
            Self::Native => "native",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Auto => AUTO,
        }
    }
}

/// A project's checked request.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    pub path: PathBuf,
    enabled: bool,
    backend: Option<&'static str>,
    image: Option<String>,
    memory_mb: Option<u64>,
    cpu_millicores: Option<u64>,
    timeout: Option<Duration>,
}

impl Project {
    /// Reads a project's file; `None` if it has no `sandbox` block.
    fn parse(path: &Path, text: &str) -> Result<Option<Self>> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let file: File =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| unreadable(path, error))?;
        reader.end().map_err(|error| invalid(path).caused_by(error))?;
        file.sandbox.map(|block| Self::check(path, block)).transpose()
    }

    fn check(path: &Path, block: Block) -> Result<Self> {
        let image = |image: String| check_wanted(&image).map(|()| image);
        let memory = |text: String| {
            let size = text.parse::<Bytes>().map(Bytes::as_mebibytes);
            size.map_err(|error| Error::new(Kind::Invalid, format!("`memoryLimit`: {}", error.message)))
        };
        let checked = || {
            Ok(Self {
                path: path.to_owned(),
                enabled: block.enabled.unwrap_or(true),
                backend: block.backend.map(Wanted::name),
                image: block.image.map(image).transpose()?,
                memory_mb: block.memory_limit.map(memory).transpose()?,
                cpu_millicores: block.cpu_limit.map(millicores).transpose()?,
                timeout: block.timeout_ms.map(timeout).transpose()?,
            })
        };
        checked().map_err(|error: Error| invalid(path).caused_by(error))
    }
}

impl Resolved {
    /// Applies a project's request where the user said nothing, and returns notes for people.
    pub(super) fn adopt(&mut self, project: &Project) -> Vec<String> {
        let shown = project.path.display();
        if !project.enabled {
            return vec![format!("`{shown}` asks for no sandbox; coracle runs nothing outside of one")];
        }
        let mut notes = Vec::new();
        let source = Source::Project(project.path.clone());
        if let (Some(image), Source::Default) = (&project.image, &self.image.source) {
            self.image = Found { value: image.clone(), source: source.clone() };
            notes.push(format!("image `{image}` comes from `{shown}`"));
        }
        if let (Some(backend), true) = (project.backend, self.backends.is_default()) {
            notes.push(match self.projects.allows(backend) {
                true => {
                    self.backends.adopt(backend, source.clone());
                    format!("backend `{backend}` comes from `{shown}`")
                }
                false => {
                    format!("`{shown}` asks for backend `{backend}`, which `projects.backends` does not name")
                }
            });
        }
        self.narrow("limits.memory_mb", project.memory_mb, &source);
        self.narrow("limits.cpu_millicores", project.cpu_millicores, &source);
        if let (Some(timeout), Source::Default) = (project.timeout, &self.exec_timeout.source) {
            self.exec_timeout =
                Found { value: self.exec_timeout_max.value.map_or(timeout, |max| timeout.min(max)), source };
        }
        notes
    }

    /// Sets the default of a limit: anything up to the maximum where the user wrote none, otherwise only less than
    /// theirs.
    fn narrow(&mut self, name: &str, wanted: Option<u64>, source: &Source) {
        let Some((_, found)) = self.limits.iter_mut().find(|(known, _)| *known == name) else { return };
        let Range { default, max } = found.value;
        let bound = if found.source == Source::Default { max } else { default };
        if let Some(wanted) = wanted
            && wanted.min(bound) != default
        {
            *found = Found { value: Range { default: wanted.min(bound), max }, source: source.clone() };
        }
    }
}

/// Refuses text that is no image, and snapshots: their files belong to the user.
fn check_wanted(image: &str) -> Result<()> {
    match ImageId::among_names(image) {
        Some(_) => Err(Error::invalid("sandbox.image", "is a snapshot, which a project cannot choose")),
        None => check_image("sandbox.image", image),
    }
}

fn invalid(path: &Path) -> Error {
    Error::new(Kind::Invalid, format!("the `sandbox` block of `{}` is not valid", path.display()))
        .detail("file", path.to_string_lossy())
        .hint("correct it, or have coracle ignore it with CORACLE_PROJECT=ignore")
}

/// Returns the error that names the field and what is wrong with it.
fn unreadable(path: &Path, error: serde_path_to_error::Error<serde_json::Error>) -> Error {
    let field = error.path().to_string();
    let error = error.into_inner();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    let what = plainly(text.strip_suffix(&place).unwrap_or(&text));
    let what = if what.starts_with("is ") { format!("`{field}` {what}") } else { what };
    let mut refused = invalid(path);
    refused.message.push_str(&format!(" in line {}: {what}", error.line()));
    refused
}

fn read_or_ignore(variable: &str, text: &str) -> Result<bool> {
    match text {
        "read" => Ok(true),
        "ignore" => Ok(false),
        other => Err(Error::invalid(
            variable,
            format!("is `{}`, neither `read` nor `ignore`", other.escape_debug()),
        )),
    }
}

fn millicores(count: f64) -> Result<u64> {
    // More than any machine has; larger numbers lose precision.
    match count > 0.0 && count <= 1_000_000.0 {
        true => Ok((count * 1000.0).ceil() as u64),
        false => Err(Error::invalid("cpuLimit", format!("is {count}, not a number of CPUs"))),
    }
}

fn timeout(millis: u64) -> Result<Duration> {
    match millis {
        0 => Err(Error::invalid("timeoutMs", "is 0, not a time to run for")),
        millis => Ok(Duration::from_millis(millis)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/repo/.openagents/project.json";

    fn parse(text: &str) -> Result<Option<Project>> {
        Project::parse(Path::new(PATH), text)
    }

    #[test]
    fn the_block_of_other_tools_is_understood() {
        let text = r#"{"projectId": "openagents", "sandbox": {"enabled": true, "backend": "macos-container",
            "image": "oven/bun:latest", "memoryLimit": "4G", "cpuLimit": 1.5, "timeoutMs": 300000}}"#;

        let project = parse(text).expect("valid").expect("a block");

        assert_eq!((project.enabled, project.backend), (true, Some(MACOS_CONTAINER)));
        assert_eq!(project.image.as_deref(), Some("oven/bun:latest"));
        assert_eq!((project.memory_mb, project.cpu_millicores), (Some(4096), Some(1500)));
        assert_eq!(project.timeout, Some(Duration::from_secs(300)));
    }

    #[test]
    fn a_file_without_the_block_says_nothing() {
        assert_eq!(parse(r#"{"projectId": "x"}"#).expect("valid"), None);
        assert_eq!(parse(r#"{"sandbox": null}"#).expect("valid"), None);
    }

    #[test]
    fn an_error_names_the_file_and_the_place() {
        for (text, expected) in [
            ("{\"sandbox\": {\n  \"image\": }}", "in line 2"),
            ("12", "line 1"),
            (r#"{"sandbox": {"memorylimit": "1G"}}"#, "memorylimit"),
            (r#"{"sandbox": {"backend": "ssh://evil"}}"#, "ssh://evil"),
            (r#"{"sandbox": {"image": "../x"}}"#, "sandbox.image"),
            (r#"{"sandbox": {"image": "img_01h455vb4pex5vsknk084sn02q"}}"#, "sandbox.image"),
            (r#"{"sandbox": {"memoryLimit": "lots"}}"#, "lots"),
            (r#"{"sandbox": {"cpuLimit": -1}}"#, "cpuLimit"),
            (r#"{"sandbox": {"cpuLimit": 1e300}}"#, "cpuLimit"),
            (r#"{"sandbox": {"timeoutMs": 0}}"#, "timeoutMs"),
        ] {
            let error = parse(text).expect_err(text);

            assert_eq!((error.kind, &error.details["file"]), (Kind::Invalid, &PATH.into()), "{text}");
            assert!(
                error.chain().contains(expected) && error.chain().contains(PATH),
                "{text}: {}",
                error.chain()
            );
        }
    }
}
