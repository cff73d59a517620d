//! What a sandbox shall be: the caller's text, and the checked value everything else works with.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, Kind, Result};
use crate::ids::ImageId;
use crate::image::{self, Reference};
use crate::install;
use crate::limits::{Limit, Limits, LimitsInput, SET_BY_OPERATOR};
use crate::mount::{self, Mount, MountInput};
use crate::network::Network;
use crate::policy::Policy;
use crate::printable::is_hidden;
use crate::repo::RepoChoice;
pub use crate::runtime::Runtime;

/// The default directory of the work.
pub const WORKSPACE: &str = "/workspace";
/// The longest path the kernel takes, its terminator included.
pub const PATH_MAX: usize = 4096;
/// How long a sandbox for one command outlives its caller.
pub const ONE_COMMAND_IDLE: Duration = Duration::from_secs(60);
/// Bounds of one `env` block: the kernel's limit for a single `execve` string, and a generous total.
const ENV_VALUE_MAX: usize = 128 << 10;
const ENV_TOTAL_MAX: usize = 512 << 10;
/// A label is for people and scripts to find things by, not a place to keep data.
const LABELS_MAX: usize = 64;
const LABEL_LEN_MAX: usize = 256;
/// More than there are walls.
const WALLS_MAX: usize = 64;
/// Longer than any user name; also keeps messages about it short.
const USER_MAX: usize = 256;

/// A sandbox as a caller describes it. Everything may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpecInput {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The language commands are in, which decides on the image where none is named.
    #[serde(alias = "language", skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where commands start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// The user commands run as unless they say otherwise, by name or number; the image's if absent. The workspace is theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// `none`, `open` or `allow=HOST[:PORT],*.HOST,…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountInput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privileges: Option<Privileges>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The backend that makes it; `auto` for the first that can. The operator's choice if absent.
    pub backend: Option<String>,
    /// Backends that may be used, in this order, where that one cannot. None by default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    /// How long the sandbox may be idle, as in `15m`; another way to write `limits.timeout_seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// What becomes of it when it reaches its idle limit or its guest is killed: `hibernate` keeps its files for the next
    /// use, `destroy` removes them. `hibernate` if absent, where the backend can keep them; `destroy` for one command and
    /// for files in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_idle: Option<OnIdle>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Walls that must stand, by the names `doctor` shows; without them the sandbox is refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<String>,
    /// Limits that were written but may go unenforced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_missing: Vec<Limit>,
    /// Mounts directories although they hold unix sockets: the sandbox reaches the programs that listen there, whatever
    /// its network is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_sockets: bool,
    /// The repository it works on, checked out in the workspace on a branch of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoChoice>,
    /// Whether the dependencies of its repository are installed: `auto` where there is a lockfile, `off`, or `required` to
    /// fail where they cannot be. `auto` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<install::Mode>,
}

/// The purpose of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To stay, for any number of commands.
    Session,
    OneCommand,
}

impl SpecInput {
    /// Returns the spec adapted to its purpose.
    pub fn for_purpose(self, purpose: Purpose) -> Self {
        match purpose {
            Purpose::Session => self,
            Purpose::OneCommand => self.for_one_command(),
        }
    }

    /// Returns the spec of a sandbox for one command: its caller removes it, and if the caller dies it soon ends by
    /// idling.
    pub fn for_one_command(mut self) -> Self {
        let written = match &self.limits {
            Some(LimitsChoice::Limits(limits)) => limits.clone(),
            Some(LimitsChoice::Word(_)) | None => LimitsInput::default(),
        };
        if written.timeout_seconds.is_none() {
            self.ttl.get_or_insert_with(|| format!("{}s", ONE_COMMAND_IDLE.as_secs()));
        }
        self.on_idle.get_or_insert(OnIdle::Destroy);
        let unlimited = matches!(self.limits, Some(LimitsChoice::Word(_)));
        if !unlimited && written.workspace_mb.is_none() {
            self.storage.get_or_insert(Storage::Memory);
        }
        self
    }
}

/// Limits, or the explicit word `unlimited`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum LimitsChoice {
    Word(Unlimited),
    Limits(LimitsInput),
}

impl<'de> Deserialize<'de> for LimitsChoice {
    /// Decides by the JSON type alone, so that a mistake inside is reported with the name of its field.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;

        impl<'de> Visitor<'de> for Choice {
            type Value = LimitsChoice;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("limits, or the word `unlimited`")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<LimitsChoice, E> {
                Unlimited::deserialize(word.into_deserializer()).map(LimitsChoice::Word)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LimitsChoice, A::Error> {
                LimitsInput::deserialize(MapAccessDeserializer::new(map)).map(LimitsChoice::Limits)
            }
        }

        deserializer.deserialize_any(Choice)
    }
}

/// The word `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unlimited {
    Unlimited,
}

/// Where a sandbox's own files are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    Disk,
    /// Counted as the sandbox's memory. Quick to make and to remove: the default of sandboxes for one command.
    Memory,
}

/// What becomes of a sandbox whose guest has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnIdle {
    /// Its files stay; the next use starts a new guest with them.
    Hibernate,
    /// It ends, and its files go with it.
    Destroy,
}

/// What commands may do beyond the minimum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Privileges {
    /// No capability at all.
    #[default]
    Minimal,
    /// The namespaced capabilities that package managers need: changing owners and users inside the sandbox.
    Install,
    /// No capability, and the system calls of debuggers: a command may trace other commands of its user in the sandbox.
    Debug,
}

impl Privileges {
    /// Tells whether these privileges include no more than `most`. `install` and `debug` each exceed `minimal`, and
    /// neither includes the other.
    pub fn is_within(self, most: Self) -> bool {
        self == Self::Minimal || self == most
    }

    /// Returns the name callers write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Install => "install",
            Self::Debug => "debug",
        }
    }
}

/// A checked specification, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    pub image: String,
    pub runtime: Option<Runtime>,
    pub env: BTreeMap<String, String>,
    /// Where commands start, if the caller said so; else the image or the workspace decides.
    #[serde(default)]
    pub workdir: Option<String>,
    /// The user of commands, if the caller said so; else the image decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub limits: Limits,
    /// Where files are kept, if the caller said so; else on disk where that can be bounded.
    #[serde(default)]
    pub storage: Option<Storage>,
    /// The network it was made with; the record has the narrowed one.
    #[serde(default)]
    pub network: Network,
    #[serde(default)]
    pub mounts: Vec<Mount>,
    pub privileges: Privileges,
    /// The backend the caller asked for; the record has the one that made it.
    pub backend: Option<String>,
    #[serde(default)]
    pub fallback: Vec<String>,
    /// What becomes of it without a guest, if the caller said so; else its backend decides. In a record it is decided; older
    /// versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_idle: Option<OnIdle>,
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub require: Vec<String>,
    pub allow_missing: Vec<Limit>,
    /// Records of older versions lack this; their sandboxes were made without a check for sockets.
    #[serde(default)]
    pub allow_sockets: bool,
    /// The repository the caller named; the record has the branch that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoChoice>,
    /// Whether dependencies are installed, if the caller said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<install::Mode>,
}

impl Spec {
    /// Returns where commands start: as the caller said, or the image, or in the workspace. A caller that mounts a
    /// workspace, or has a repository in it, wants to start in it.
    pub fn workdir<'a>(&'a self, of_image: Option<&'a str>) -> &'a str {
        let brought = self.repo.is_some() || self.mounts.iter().any(|mount| mount.target == WORKSPACE);
        self.workdir.as_deref().or(of_image.filter(|_| !brought)).unwrap_or(WORKSPACE)
    }

    /// Returns the default user of commands: as the caller said, or the image; root if absent.
    pub fn user<'a>(&'a self, image: Option<&'a image::Config>) -> Option<&'a str> {
        let of_image = || image?.user.as_deref().filter(|user| !user.is_empty());
        self.user.as_deref().or_else(of_image)
    }

    /// Returns what becomes of the sandbox when its guest has ended, as its record says.
    pub fn on_idle(&self) -> OnIdle {
        self.on_idle.unwrap_or(OnIdle::Destroy)
    }

    /// Returns the part of the spec that a sandbox is built by: two of one shape differ only in what a guest can
    /// learn later.
    ///
    /// `None` where a sandbox cannot be made ahead: the contents of mounts may change, so may the image behind a
    /// name, and a sandbox with a disk or a network is worth the wait.
    pub fn shape(&self) -> Option<Self> {
        let settled = self.image == image::HOST || self.image.contains('@');
        let bare = self.mounts.is_empty() && self.network.is_none() && self.repo.is_none();
        let light = self.storage == Some(Storage::Memory) && bare;
        (settled && light).then(|| Self {
            on_idle: Some(OnIdle::Destroy),
            env: BTreeMap::new(),
            workdir: None,
            limits: Limits { timeout_seconds: 0, output_bytes: 0, ..self.limits.clone() },
            labels: BTreeMap::new(),
            ..self.clone()
        })
    }

    /// Checks what a caller wrote against the policy and fills in the defaults.
    pub fn resolve(input: SpecInput, policy: &Policy) -> Result<Self> {
        let image = resolve_image(input.image.as_ref(), input.runtime, policy)?;
        Ok(Self { image, ..Self::of_any_image(input, policy)? })
    }

    /// Does the same without an image: where the caller has chosen none yet, the policy may not allow the default.
    pub(crate) fn of_any_image(input: SpecInput, policy: &Policy) -> Result<Self> {
        check_install(&input)?;
        check_env("env", &input.env)?;
        check_labels(&input.labels)?;
        check_walls(&input.require)?;
        if let Some(workdir) = &input.workdir {
            check_absolute("workdir", workdir)?;
        }
        input.user.as_deref().map_or(Ok(()), check_user)?;
        let storage = input.storage;
        let on_idle = input.on_idle;
        if (on_idle, storage) == (Some(OnIdle::Hibernate), Some(Storage::Memory)) {
            let what = "is `hibernate`, but files in memory end with the guest";
            return Err(Error::invalid("on_idle", what).hint("use `storage: disk`, or leave `on_idle` out"));
        }
        let files = match &input.limits {
            Some(LimitsChoice::Limits(limits)) => limits.workspace_mb,
            Some(LimitsChoice::Word(_)) | None => None,
        };
        let limits = resolve_limits(input.limits, input.ttl.as_deref(), policy)?;
        let (backend, fallback) = policy.backends.resolve(input.backend, input.fallback)?;

        let mounts = mount::resolve(input.mounts, &policy.mounts)?;
        input.repo.as_ref().map_or(Ok(()), |repo| repo.check(&mounts))?;

        Ok(Self {
            image: String::new(),
            runtime: input.runtime,
            env: input.env,
            workdir: input.workdir,
            user: input.user,
            limits: fit_storage(limits, storage, files)?,
            storage,
            network: policy.network.resolve(input.network.as_deref())?,
            mounts,
            privileges: input.privileges.unwrap_or_default(),
            backend,
            fallback,
            on_idle,
            labels: input.labels,
            require: input.require,
            allow_missing: input.allow_missing,
            allow_sockets: input.allow_sockets,
            repo: input.repo,
            install: input.install,
        })
    }
}

/// Takes the caller's image, the language's or the default, and refuses one that the operator does not allow.
fn resolve_image(written: Option<&String>, runtime: Option<Runtime>, policy: &Policy) -> Result<String> {
    let of_runtime = runtime.and_then(|runtime| policy.runtimes.get(&runtime));
    let name = written.or(of_runtime).unwrap_or(&policy.image);
    if name == image::HOST {
        policy.images.check_host()?;
        return Ok(name.clone());
    }
    if ImageId::among_names(name).is_some() {
        policy.images.check_snapshot(name)?;
        return Ok(name.clone());
    }
    let reference: Reference = name.parse()?;
    policy.images.check_reference(&reference)?;
    Ok(reference.to_string())
}

/// Files in memory count as memory: by default they get half of it, and never more than all.
fn fit_storage(mut limits: Limits, storage: Option<Storage>, written: Option<u64>) -> Result<Limits> {
    let (Some(Storage::Memory), Some(memory), Some(files)) = (storage, limits.memory_mb, limits.workspace_mb)
    else {
        return Ok(limits);
    };
    if written.is_none() {
        limits.workspace_mb = Some(files.min(memory.div_ceil(2)));
    } else if files > memory {
        let problem = format!("is {files}, more than the {memory} MB of memory the files are to be kept in");
        return Err(
            Error::invalid("limits.workspace_mb", problem).hint("raise `memory_mb`, or use `storage: disk`")
        );
    }
    Ok(limits)
}

fn resolve_limits(choice: Option<LimitsChoice>, ttl: Option<&str>, policy: &Policy) -> Result<Limits> {
    let mut limits = match &choice {
        None => Limits::resolve(&LimitsInput::default(), &policy.limits)?,
        Some(LimitsChoice::Limits(input)) => Limits::resolve(input, &policy.limits)?,
        Some(LimitsChoice::Word(Unlimited::Unlimited)) => Limits::unlimited(&policy.limits),
    };
    let Some(ttl) = ttl else { return Ok(limits) };
    if matches!(&choice, Some(LimitsChoice::Limits(LimitsInput { timeout_seconds: Some(_), .. }))) {
        return Err(Error::invalid(
            "ttl",
            "and `limits.timeout_seconds` say the same thing; write one of them",
        ));
    }
    let ttl = crate::duration::parse(ttl).map_err(|error| {
        let hint = error.hint.unwrap_or_default();
        Error::new(Kind::Invalid, format!("`ttl`: {}", error.message)).hint(hint).detail("field", "ttl")
    })?;
    let seconds = ttl.as_millis().div_ceil(1000);
    let max = policy.limits.timeout_seconds.max;
    if !(1..=u128::from(max)).contains(&seconds) {
        let (ttl, longest) = (crate::duration::shown(ttl), crate::duration::shown(Duration::from_secs(max)));
        let what = format!("is {ttl}, outside 1s to {longest}");
        let error = Error::invalid("ttl", what);
        return Err(if seconds == 0 { error } else { error.hint(SET_BY_OPERATOR) });
    }
    limits.timeout_seconds = seconds as u64;
    Ok(limits)
}

/// Refuses names and values that `execve` cannot carry or would read differently.
pub fn check_env(field: &str, env: &BTreeMap<String, String>) -> Result<()> {
    let mut total = 0;
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Error::invalid(field, format!("has the impossible name `{}`", name.escape_debug())));
        }
        if value.contains('\0') {
            return Err(Error::invalid(field, format!("has a NUL byte in `{}`", name.escape_debug())));
        }
        if name.len() + value.len() > ENV_VALUE_MAX {
            return Err(Error::invalid(
                field,
                format!("has more than {ENV_VALUE_MAX} bytes in `{}`", name.escape_debug()),
            ));
        }
        total += name.len() + value.len() + 2;
    }
    match total > ENV_TOTAL_MAX {
        true => Err(Error::invalid(field, format!("has more than {ENV_TOTAL_MAX} bytes in all"))),
        false => Ok(()),
    }
}

/// Refuses paths that are not absolute, too long, or hold a NUL byte.
pub fn check_absolute(field: &str, path: &str) -> Result<()> {
    check_path(field, path)?;
    match path.starts_with('/') {
        true => Ok(()),
        false => Err(Error::invalid(field, "must be an absolute path")),
    }
}

/// Refuses paths no kernel call could take.
pub fn check_path(field: &str, path: &str) -> Result<()> {
    if path.is_empty() {
        return Err(Error::invalid(field, "is empty"));
    }
    if path.contains('\0') {
        return Err(Error::invalid(field, "holds a NUL byte"));
    }
    match path.len() < PATH_MAX {
        true => Ok(()),
        false => Err(Error::invalid(field, format!("has {} bytes, more than {}", path.len(), PATH_MAX - 1))),
    }
}

/// Refuses text that could not name a user.
pub fn check_user(user: &str) -> Result<()> {
    match user.is_empty() || user.len() > USER_MAX || user.chars().any(is_hidden) {
        true => {
            Err(Error::invalid("user", format!("must be 1 to {USER_MAX} bytes without control characters")))
        }
        false => Ok(()),
    }
}

/// Refuses to install where nobody has brought anything that could name dependencies.
fn check_install(input: &SpecInput) -> Result<()> {
    let brought = input.repo.is_some() || input.mounts.iter().any(|mount| mount.target == WORKSPACE);
    match input.install {
        Some(install::Mode::Auto | install::Mode::Required) if !brought => {
            Err(Error::invalid("install", "needs a repository, or a directory or volume as the workspace"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses text that could not be the name of a wall; the backend knows which exist.
fn check_walls(walls: &[String]) -> Result<()> {
    let is_name = |wall: &String| {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        !wall.is_empty() && wall.len() <= 64 && wall.bytes().all(letter)
    };
    match walls.len() <= WALLS_MAX && walls.iter().all(is_name) {
        true => Ok(()),
        false => Err(Error::invalid("require", "must name walls as `doctor` shows them")),
    }
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<()> {
    if labels.len() > LABELS_MAX {
        return Err(Error::invalid("labels", format!("has more than {LABELS_MAX} entries")));
    }
    if let Some((name, _)) =
        labels.iter().find(|(name, value)| name.is_empty() || name.len() + value.len() > LABEL_LEN_MAX)
    {
        let what = format!("has `{}`, empty or over {LABEL_LEN_MAX} bytes", name.escape_debug());
        return Err(Error::invalid("labels", what));
    }
    match labels.iter().find(|(name, value)| name.chars().chain(value.chars()).any(is_hidden)) {
        Some((name, _)) => Err(Error::invalid(
            "labels",
            format!("has `{name}` with characters that control a terminal or the direction of text"),
        )),
        None => Ok(()),
    }
}
