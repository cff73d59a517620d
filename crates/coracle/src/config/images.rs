//! Settings about images, their registries, and directories to mount. Checked when they are read: a mistake must show
//! before the setting is needed.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use coracle_backends::Pace;
use coracle_core::image::{Allowed, HOST, Reference};
use coracle_core::mount::MountPolicy;
use coracle_core::{Error, Policy, Result};

use super::languages::LanguageSettings;
use super::layers::{Found, Layers};
use super::{Setting, home, setting};

/// How to talk to registries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registries {
    /// `host[:port]` of registries that may be used without TLS.
    pub plain_http: Vec<String>,
    /// `host[:port]` of registries that may have a private address.
    pub private: Vec<String>,
    /// The directory of Docker's `config.json`, which holds the credentials.
    pub docker_config: Option<PathBuf>,
    /// A PEM file with certificates to trust besides the machine's.
    pub extra_roots: Option<PathBuf>,
    /// How slow registries may be.
    pub pace: Pace,
}

/// All settings about images, resolved.
#[derive(Debug)]
pub struct ImageSettings {
    allow: Found<Allowed>,
    languages: LanguageSettings,
    mounts: Found<Option<Vec<String>>>,
    plain_http: Found<Vec<String>>,
    private: Found<Vec<String>>,
    docker_config: Found<Option<PathBuf>>,
    extra_roots: Found<Option<PathBuf>>,
    grace_seconds: Found<u32>,
    slowest_kib: Found<u32>,
}

impl ImageSettings {
    /// Resolves every setting and refuses text that no image, host or directory could be called.
    pub(super) fn from(layers: &Layers<'_>) -> Result<Self> {
        let docker_config = layers.pick(
            "DOCKER_CONFIG",
            |_, text| Ok(Some(text.into())),
            |file| file.registries.docker_config.clone().map(Some),
            home::docker_config(layers.environment),
        )?;
        Ok(Self {
            allow: layers
                .of_file(|file| file.images.allow.clone().map(Some), None)
                .read(|patterns| patterns.map_or_else(|| Ok(Allowed::default()), Allowed::only))?,
            languages: LanguageSettings::from(layers)?,
            mounts: layers
                .of_file(|file| file.mounts.allow.clone().map(Some), None)
                .checked(|list| list.iter().flatten().try_for_each(|path| check_directory(path)))?,
            plain_http: layers.of_file(|file| file.registries.plain_http.clone(), Vec::new()).checked(
                |hosts| hosts.iter().try_for_each(|host| check_host("registries.plain_http", host)),
            )?,
            private: layers
                .of_file(|file| file.registries.private.clone(), Vec::new())
                .checked(|hosts| hosts.iter().try_for_each(|host| check_host("registries.private", host)))?,
            docker_config,
            extra_roots: layers.of_file(|file| file.registries.extra_roots.clone().map(Some), None),
            grace_seconds: layers
                .of_file(|file| file.registries.grace_seconds, Pace::default().grace.as_secs() as u32)
                .checked(|seconds| at_least_one("registries.grace_seconds", *seconds))?,
            slowest_kib: layers
                .of_file(|file| file.registries.slowest_kib, (Pace::default().slowest >> 10) as u32)
                .checked(|kib| at_least_one("registries.slowest_kib", *kib))?,
        })
    }

    /// Puts these settings into the policy.
    pub fn apply(&self, policy: &mut Policy) {
        policy.images = self.allow.value.clone();
        policy.mounts = MountPolicy { allow: self.mounts.value.clone() };
        self.languages.apply(policy);
    }

    pub fn registries(&self) -> Registries {
        Registries {
            plain_http: self.plain_http.value.clone(),
            private: self.private.value.clone(),
            docker_config: self.docker_config.value.clone(),
            extra_roots: self.extra_roots.value.clone(),
            pace: Pace {
                grace: Duration::from_secs(self.grace_seconds.value.into()),
                slowest: u64::from(self.slowest_kib.value) << 10,
            },
        }
    }

    /// Returns every setting for display.
    pub fn settings(&self) -> Vec<Setting> {
        let mut all = vec![setting("images.allow", list(self.allow.value.patterns()), &self.allow.source)];
        all.extend(self.languages.settings());
        all.extend([
            setting("mounts.allow", list(self.mounts.value.as_deref()), &self.mounts.source),
            setting("registries.plain_http", list(Some(&self.plain_http.value)), &self.plain_http.source),
            setting("registries.private", list(Some(&self.private.value)), &self.private.source),
            setting("registries.docker_config", place(&self.docker_config.value), &self.docker_config.source),
            setting("registries.extra_roots", place(&self.extra_roots.value), &self.extra_roots.source),
            setting(
                "registries.grace_seconds",
                self.grace_seconds.value.to_string(),
                &self.grace_seconds.source,
            ),
            setting("registries.slowest_kib", self.slowest_kib.value.to_string(), &self.slowest_kib.source),
        ]);
        all
    }
}

pub(super) fn list(list: Option<&[String]>) -> String {
    match list {
        None => "all".to_owned(),
        Some([]) => "none".to_owned(),
        Some(list) => list.join(", "),
    }
}

pub(super) fn place(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(|| "none".to_owned(), |path| path.display().to_string())
}

/// Refuses text that is neither `host` nor a reference.
pub fn check_image(field: &str, image: &str) -> Result<()> {
    match image == HOST || image.parse::<Reference>().is_ok() {
        true => Ok(()),
        false => Err(Error::invalid(
            field,
            format!("is `{}`, neither `host` nor a reference", image.escape_debug()),
        )),
    }
}

/// Refuses text that cannot precede an image's name.
fn check_host(field: &str, host: &str) -> Result<()> {
    let reference = format!("{host}/some/image").parse::<Reference>();
    match reference.is_ok_and(|reference| reference.registry() == host) {
        true => Ok(()),
        false => {
            Err(Error::invalid(field, format!("holds `{}`, no registry's host[:port]", host.escape_debug())))
        }
    }
}

fn at_least_one(field: &str, number: u32) -> Result<()> {
    match number {
        0 => Err(Error::invalid(field, "is 0; it has to be at least 1")),
        _ => Ok(()),
    }
}

fn check_directory(path: &str) -> Result<()> {
    let plain = |component: Component<'_>| matches!(component, Component::RootDir | Component::Normal(_));
    match Path::new(path).is_absolute() && Path::new(path).components().all(plain) {
        true => Ok(()),
        false => Err(Error::invalid(
            "mounts.allow",
            format!("holds `{}`, no absolute path without `..`", path.escape_debug()),
        )),
    }
}
