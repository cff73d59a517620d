//! Settings about container engines: where they are and how to reach other machines.
//!
//! The variables are Docker's and Podman's own. Their values are parsed when a container engine is needed: a value we
//! do not understand must not keep people from working without one.

use std::path::PathBuf;

use coracle_backends::Engines;
use coracle_core::image::{HOST, Reference};
use coracle_core::{Error, Result};

use super::images::place;
use super::layers::{Found, Layers};
use super::{Setting, home, setting};

/// All settings about container engines, resolved.
#[derive(Debug)]
pub struct EngineSettings {
    docker_host: Found<Option<String>>,
    docker_context: Found<Option<String>>,
    docker_tls_verify: Found<bool>,
    docker_cert_path: Found<Option<PathBuf>>,
    container_host: Found<Option<String>>,
    ssh: Found<Option<Vec<String>>>,
    image: Found<Option<String>>,
    runtime_directory: Option<PathBuf>,
}

impl EngineSettings {
    /// Resolves every setting.
    pub(super) fn from(layers: &Layers<'_>) -> Result<Self> {
        let some = |_: &str, text: &str| Ok(Some(text.to_owned()));
        let docker_cert_path = |_: &str, text: &str| Ok(Some(text.into()));
        Ok(Self {
            docker_host: layers.pick(
                "DOCKER_HOST",
                some,
                |file| file.engines.docker_host.clone().map(Some),
                None,
            )?,
            docker_context: layers.pick(
                "DOCKER_CONTEXT",
                some,
                |file| file.engines.docker_context.clone().map(Some),
                None,
            )?,
            // Docker takes any value as yes, `0` included, so coracle does the same.
            docker_tls_verify: layers.pick(
                "DOCKER_TLS_VERIFY",
                |_, _| Ok(true),
                |file| file.engines.docker_tls_verify,
                false,
            )?,
            docker_cert_path: layers.pick(
                "DOCKER_CERT_PATH",
                docker_cert_path,
                |file| file.engines.docker_cert_path.clone().map(Some),
                None,
            )?,
            container_host: layers.pick(
                "CONTAINER_HOST",
                some,
                |file| file.engines.container_host.clone().map(Some),
                None,
            )?,
            ssh: layers
                .pick("CORACLE_SSH", |_, text| words(text), |file| file.engines.ssh.clone().map(Some), None)?
                .checked(check_program)?,
            image: layers
                .pick("CORACLE_ENGINE_IMAGE", some, |file| file.engines.image.clone().map(Some), None)?
                .checked(|image| image.iter().try_for_each(|image| check_image(image)))?,
            runtime_directory: home::runtime_directory(layers.environment),
        })
    }

    /// Returns the settings for backends.
    pub fn engines(&self, docker_config: Option<PathBuf>) -> Engines {
        Engines {
            docker_host: self.docker_host.value.clone(),
            docker_context: self.docker_context.value.clone(),
            docker_config,
            docker_tls_verify: self.docker_tls_verify.value,
            docker_cert_path: self.docker_cert_path.value.clone(),
            container_host: self.container_host.value.clone(),
            runtime_directory: self.runtime_directory.clone(),
            ssh: self.ssh.value.clone(),
            image: self.image.value.clone(),
        }
    }

    /// Returns every setting for display.
    pub fn settings(&self) -> Vec<Setting> {
        let or = |value: &Option<String>, default: &str| value.clone().unwrap_or_else(|| default.to_owned());
        let ssh = self.ssh.value.as_ref().map(|words| words.join(" "));
        vec![
            setting(
                "engines.docker_host",
                or(&self.docker_host.value, "by context"),
                &self.docker_host.source,
            ),
            setting(
                "engines.docker_context",
                or(&self.docker_context.value, "as docker's"),
                &self.docker_context.source,
            ),
            setting(
                "engines.docker_tls_verify",
                self.docker_tls_verify.value.to_string(),
                &self.docker_tls_verify.source,
            ),
            setting(
                "engines.docker_cert_path",
                place(&self.docker_cert_path.value),
                &self.docker_cert_path.source,
            ),
            setting(
                "engines.container_host",
                or(&self.container_host.value, "podman's own socket"),
                &self.container_host.source,
            ),
            setting("engines.ssh", or(&ssh, "ssh"), &self.ssh.source),
            setting("engines.image", or(&self.image.value, "none"), &self.image.source),
        ]
    }
}

/// Words are separated by spaces only; a path with a space in it goes into the file.
fn words(text: &str) -> Result<Option<Vec<String>>> {
    Ok(Some(text.split_ascii_whitespace().map(str::to_owned).collect()))
}

fn check_program(words: &Option<Vec<String>>) -> Result<()> {
    match words.as_deref() {
        Some([]) => Err(Error::invalid("engines.ssh", "names no program")),
        Some([program, ..]) if program.is_empty() => Err(Error::invalid("engines.ssh", "names no program")),
        Some(_) | None => Ok(()),
    }
}

/// Container engines cannot use this machine's programs, so `host` is no image for them.
fn check_image(image: &str) -> Result<()> {
    match image != HOST && image.parse::<Reference>().is_ok() {
        true => Ok(()),
        false => {
            Err(Error::invalid("engines.image", format!("is `{}`, not a reference", image.escape_debug())))
        }
    }
}

#[cfg(test)]
mod tests {
    use coracle_core::Kind;

    use super::*;

    fn from(variables: &[(&str, &str)], file: &str) -> Result<EngineSettings> {
        let environment = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        };
        let file = toml::from_str(file).expect("the test writes valid settings");
        EngineSettings::from(&Layers { environment: &environment, file: Some(("config.toml".into(), file)) })
    }

    #[test]
    fn the_variables_of_docker_and_podman_come_before_the_file() {
        let file = "[engines]\ndocker_host = 'unix:///file.sock'\ndocker_tls_verify = false\n\
                    container_host = 'unix:///podman.sock'\nssh = ['/opt/my ssh', '-4']\nimage = 'debian:12'\n";
        let variables = [
            ("DOCKER_HOST", "ssh://me@host"),
            ("DOCKER_CONTEXT", "mine"),
            ("DOCKER_TLS_VERIFY", "1"),
            ("DOCKER_CERT_PATH", "/certs"),
            ("CONTAINER_HOST", "unix:///other.sock"),
            ("XDG_RUNTIME_DIR", "/run/user/1000"),
            ("CORACLE_SSH", "ssh  -F /my/config"),
            ("CORACLE_ENGINE_IMAGE", "alpine:3"),
        ];

        let by_file = from(&[], file).expect("valid").engines(None);
        let by_variable = from(&variables, file).expect("valid").engines(Some("/docker".into()));

        let expected = Engines {
            docker_host: Some("unix:///file.sock".into()),
            container_host: Some("unix:///podman.sock".into()),
            ssh: Some(vec!["/opt/my ssh".into(), "-4".into()]),
            image: Some("debian:12".into()),
            ..Engines::default()
        };
        assert_eq!(by_file, expected);
        let expected = Engines {
            docker_host: Some("ssh://me@host".into()),
            docker_context: Some("mine".into()),
            docker_config: Some("/docker".into()),
            docker_tls_verify: true,
            docker_cert_path: Some("/certs".into()),
            container_host: Some("unix:///other.sock".into()),
            runtime_directory: Some("/run/user/1000".into()),
            ssh: Some(vec!["ssh".into(), "-F".into(), "/my/config".into()]),
            image: Some("alpine:3".into()),
        };
        assert_eq!(by_variable, expected);
    }

    #[test]
    fn an_unknown_endpoint_is_no_error_until_it_is_needed() {
        let settings = from(&[("DOCKER_HOST", "npipe:////./pipe/docker_engine")], "").expect("not looked at");

        let shown = settings.settings();

        assert_eq!(shown[0].value, "npipe:////./pipe/docker_engine");
        assert!(coracle_backends::docker::endpoint::docker(&settings.engines(None)).is_err());
    }

    #[test]
    fn a_program_or_an_image_that_is_none_is_refused() {
        for (variables, file) in [
            (vec![("CORACLE_SSH", "  ")], ""),
            (vec![], "[engines]\nssh = []"),
            (vec![], "[engines]\nssh = ['']"),
            (vec![("CORACLE_ENGINE_IMAGE", "host")], ""),
            (vec![], "[engines]\nimage = 'https://debian'"),
        ] {
            assert_eq!(from(&variables, file).expect_err(file).kind, Kind::Invalid, "{file}");
        }
    }
}
