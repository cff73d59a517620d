//! Directories mounted into a sandbox: from the host, or volumes, which coracle keeps beyond the life of sandboxes.

use std::path::{Component, Path};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};
use crate::ids::VolumeName;
use crate::spec::check_absolute;

/// Each costs the sandbox a mount, and all travel to the guest in one message.
const MOUNTS_MAX: usize = 32;
/// What the guest mounts itself, and where its program is in a container; nothing may be mounted over or into these.
const RESERVED: [&str; 4] = ["/proc", "/sys", "/dev", "/.coracle"];
/// Where the guest and container engines write files such as `hosts`. Mounts are allowed below it but not over it:
/// these files would end up in the caller's directory.
const ETC: &str = "/etc";

/// A directory brought into the sandbox, as a caller writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MountInput {
    /// An absolute path of a directory on the machine, or the name of a volume, which is made if it is not there.
    pub source: String,
    /// Where it appears; `/workspace` takes the place of the sandbox's own workspace.
    pub target: String,
    #[serde(default)]
    pub access: Access,
}

/// What a sandbox may do to a mounted directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Access {
    /// The sandbox changes the directory itself.
    #[default]
    #[serde(rename = "rw")]
    ReadWrite,
    #[serde(rename = "ro")]
    ReadOnly,
    /// The sandbox gets its own writable layer, which is removed with it; the directory does not change. For shared
    /// caches.
    #[serde(rename = "overlay")]
    Overlay,
}

/// A checked mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub source: Source,
    pub target: String,
    pub access: Access,
    /// Directories in which a source on the host must be after all links are resolved; anywhere if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Vec<String>>,
}

impl Mount {
    /// The beginning of what [`Self::uncounted`] says.
    const UNCOUNTED: &str = "what is written to `";

    /// Says that files written there do not count against the sandbox's disk limit.
    pub fn uncounted(&self) -> String {
        let what = match self.source {
            Source::Directory(_) => "your own directory",
            Source::Volume(_) => "a volume",
        };
        format!("{}{}` does not count against the disk limit: it is {what}", Self::UNCOUNTED, self.target)
    }

    /// Tells whether a text is one of [`Self::uncounted`].
    pub fn tells_uncounted(text: &str) -> bool {
        text.starts_with(Self::UNCOUNTED)
    }
}

/// Writes it as a caller would.
impl From<Mount> for MountInput {
    fn from(mount: Mount) -> Self {
        let source = match mount.source {
            Source::Directory(path) => path,
            Source::Volume(name) => name.into(),
        };
        Self { source, target: mount.target, access: mount.access }
    }
}

/// Where a mounted directory is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// On the host. Coracle never deletes it.
    Directory(String),
    /// A volume, kept by coracle.
    Volume(VolumeName),
}

/// Which directories of the host may be mounted. An absent list allows any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountPolicy {
    pub allow: Option<Vec<String>>,
}

/// Checks what a caller wrote; returns the mounts in the order to make them, outer ones first.
pub fn resolve(inputs: Vec<MountInput>, policy: &MountPolicy) -> Result<Vec<Mount>> {
    if inputs.len() > MOUNTS_MAX {
        return Err(Error::invalid("mounts", format!("has more than {MOUNTS_MAX} entries")));
    }
    let mut mounts = inputs.into_iter().map(|input| one(input, policy)).collect::<Result<Vec<_>>>()?;
    mounts.sort_by(|one, other| one.target.cmp(&other.target));
    match mounts.windows(2).find(|pair| pair[0].target == pair[1].target) {
        Some(pair) => Err(Error::invalid("mounts", format!("has `{}` twice", pair[0].target.escape_debug()))),
        None => Ok(mounts),
    }
}

fn one(input: MountInput, policy: &MountPolicy) -> Result<Mount> {
    check_absolute("mounts.target", &input.target)?;
    let target =
        normal(&input.target).ok_or_else(|| Error::invalid("mounts.target", "may not contain `..`"))?;
    if target == "/" || RESERVED.iter().any(|name| Path::new(&target).starts_with(name)) {
        return Err(Error::invalid(
            "mounts.target",
            format!("is `{}`, which coracle makes for every sandbox", target.escape_debug()),
        )
        .hint("mount it at another place"));
    }
    if target == ETC {
        return Err(Error::invalid("mounts.target", "is `/etc`, where every sandbox has files of its own")
            .hint("mount a directory below it, such as `/etc/app`, or put files there with `coracle cp`"));
    }
    let source =
        match input.source.starts_with('/') {
            true => Source::Directory(directory(&input.source, policy)?),
            false => Source::Volume(input.source.parse().map_err(|error: Error| {
                error.hint("a source is an absolute path, or the name of a volume")
            })?),
        };
    Ok(Mount { source, target, access: input.access, within: policy.allow.clone() })
}

fn directory(path: &str, policy: &MountPolicy) -> Result<String> {
    check_absolute("mounts.source", path)?;
    let path = normal(path).ok_or_else(|| Error::invalid("mounts.source", "may not contain `..`"))?;
    let Some(allowed) = &policy.allow else { return Ok(path) };
    match allowed.iter().any(|prefix| Path::new(&path).starts_with(prefix)) {
        true => Ok(path),
        false => {
            Err(Error::new(Kind::Invalid, format!("directory `{}` may not be mounted", path.escape_debug()))
                .detail("field", "mounts.source")
                .hint(format!("the operator allows what is in {} (`mounts.allow`)", allowed.join(", "))))
        }
    }
}

/// Returns an absolute path without `.`, doubled or trailing slashes; `None` if it contains `..`.
fn normal(path: &str) -> Option<String> {
    let mut whole = String::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => {
                whole.push('/');
                whole.push_str(name.to_str()?);
            }
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(if whole.is_empty() { "/".to_owned() } else { whole })
}
