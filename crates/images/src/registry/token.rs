//! Authenticates at a registry: what we send along with requests, and which servers may see credentials for that.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coracle_core::image::Reference;
use coracle_core::{Error, Kind, Result};
use serde::Deserialize;
use ureq::http::Uri;

use super::challenge::Challenge;
use super::credentials::{self, Credentials};
use super::origin::Origin;
use super::transport::Transport;
use crate::store::Registries;

/// An answer with a token is smaller than this.
const ANSWER_MAX: u64 = 1 << 20;

/// Token servers that are known to belong to a registry of another name.
const KNOWN_REALMS: [(&str, &str); 2] =
    [("docker.io", "auth.docker.io"), ("registry.gitlab.com", "gitlab.com")];

/// Returns the `Authorization` for the registry; `None` if we have no credentials and get no token.
pub fn authorize(
    transport: &Transport,
    registries: &Registries,
    reference: &Reference,
    challenge: &Challenge,
) -> Result<Option<String>> {
    let found = || credentials::find(registries.docker_config.as_deref(), reference.registry());
    match challenge {
        Challenge::Basic => Ok(match found()? {
            Some(Credentials::Password { name, password }) => Some(basic(&name, &password)),
            Some(Credentials::Identity(_)) | None => None,
        }),
        Challenge::Bearer { realm, service } => {
            let uri = transport.address(realm)?;
            let origin = Origin::of(&uri).map_err(|error| {
                let message =
                    format!("could not get `{reference}`: the registry's token server is unusable: {error}");
                Error::new(Kind::Invalid, message)
                    .detail("realm", realm.chars().take(200).collect::<String>())
            })?;
            // An untrusted token server sees no credentials; many issue tokens for reading without any.
            let shown = if is_trusted(&origin, transport, registries, reference) { found()? } else { None };
            let token =
                Asking { transport, uri: &uri, service: service.as_deref(), reference }.token(shown)?;
            Ok(token.map(|token| format!("Bearer {token}")))
        }
    }
}

/// Tells whether a token server may see the registry's credentials.
fn is_trusted(realm: &Origin, transport: &Transport, registries: &Registries, reference: &Reference) -> bool {
    let same = realm.host == transport.registry.host && realm.scheme == transport.registry.scheme;
    let known = KNOWN_REALMS.contains(&(reference.registry(), realm.host.as_str()));
    same || known || registries.private.iter().any(|entry| realm.is_listed(entry))
}

/// A request for a token.
struct Asking<'a> {
    transport: &'a Transport,
    uri: &'a Uri,
    service: Option<&'a str>,
    reference: &'a Reference,
}

#[derive(Deserialize)]
struct Answer {
    token: Option<String>,
    access_token: Option<String>,
}

impl Asking<'_> {
    fn token(&self, shown: Option<Credentials>) -> Result<Option<String>> {
        let scope = format!("repository:{}:pull", self.reference.repository());
        let service = self.service.unwrap_or_default();
        let mut answer = match shown {
            Some(Credentials::Identity(token)) => {
                let form = query(&[
                    ("grant_type", "refresh_token"),
                    ("client_id", "coracle"),
                    ("service", service),
                    ("scope", &scope),
                    ("refresh_token", &token),
                ]);
                self.transport.ask(self.uri, None, Some(&form))?
            }
            shown => {
                let separator = if self.uri.query().is_some() { '&' } else { '?' };
                let asked = query(&[("service", service), ("scope", &scope)]);
                let uri = self.transport.address(&format!("{}{separator}{asked}", self.uri))?;
                let authorization = match &shown {
                    Some(Credentials::Password { name, password }) => Some(basic(name, password)),
                    _ => None,
                };
                self.transport.ask(&uri, authorization.as_deref(), None)?
            }
        };
        match answer.status().as_u16() {
            200 => {}
            400 | 401 | 403 | 404 => return Ok(None),
            status => {
                return Err(self
                    .transport
                    .not_available(&format!("the registry's token server answers {status}")));
            }
        }
        let text = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_vec();
        let text = text
            .map_err(|error| self.transport.not_available("its token server breaks off").caused_by(error))?;
        let answer: Option<Answer> = serde_json::from_slice(&text).ok();
        let token = answer.and_then(|answer| answer.token.or(answer.access_token));
        // The token goes into a header.
        Ok(token.filter(|token| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())))
    }
}

fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// Encodes parameters so that no value can be taken for another parameter.
fn query(parameters: &[(&str, &str)]) -> String {
    let escape = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    char::from(byte).to_string()
                }
                other => format!("%{other:02X}"),
            })
            .collect()
    };
    let written = parameters.iter().filter(|(_, value)| !value.is_empty());
    written.map(|(name, value)| format!("{name}={}", escape(value))).collect::<Vec<_>>().join("&")
}
