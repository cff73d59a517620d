//! The name of an image, by the grammar registries share. Strict: text that could be read in two ways is refused.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Longest repository path and tag by the distribution specification.
const REPOSITORY_MAX: usize = 255;
const TAG_MAX: usize = 128;
const HOST_MAX: usize = 255;
const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_TAG: &str = "latest";

/// A reference in full, with every optional part filled in: `python` is `docker.io/library/python:latest`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl Reference {
    /// Returns the registry's host, with its port if the reference has one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the tag; absent only where there is a digest.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest, as in `sha256:…`. It overrides the tag.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Tells whether a name includes its registry.
    pub fn names_registry(text: &str) -> bool {
        split_registry(text).0.is_some()
    }

    /// Returns the name without tag and digest.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |problem: &str| {
            Error::invalid("image", format!("is `{}`: {problem}", shorten(text).escape_debug()))
                .hint("a reference is [REGISTRY[:PORT]/]NAME[:TAG][@sha256:DIGEST]")
        };
        // It would be read as the name of a repository, which its author does not mean.
        if is_digest(text) || is_digest(&format!("sha256:{text}")) {
            return Err(refuse("it is a digest without the name of a repository"));
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err(refuse("its digest is not `sha256:` and 64 lower-case hexadecimal digits"));
        }
        let (name, tag) = split_tag(rest);
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(refuse("its tag has characters no registry takes"));
        }
        let (registry, path) = split_registry(name);
        if !registry.is_none_or(is_host) {
            return Err(refuse("its registry is not a host name with an optional port"));
        }
        if !path.split('/').all(is_component) {
            return Err(refuse("its name is not lower-case words parted by `/`"));
        }
        let registry = match registry {
            None | Some("index.docker.io" | "registry-1.docker.io") => DEFAULT_REGISTRY,
            Some(registry) => registry,
        };
        let official = registry == DEFAULT_REGISTRY && !path.contains('/');
        let repository = if official { format!("library/{path}") } else { path.to_owned() };
        // Bounds the full name: coracle must be able to parse what it prints.
        if repository.len() > REPOSITORY_MAX {
            return Err(refuse("its name is longer than any registry takes"));
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository,
            tag: tag.or(digest.is_none().then_some(DEFAULT_TAG)).map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

impl TryFrom<String> for Reference {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> Self {
        reference.to_string()
    }
}

/// Tells whether this is a SHA-256 digest, the only kind we accept.
pub fn is_digest(text: &str) -> bool {
    let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix("sha256:").is_some_and(|digits| digits.len() == 64 && digits.bytes().all(hexadecimal))
}

/// Splits at a colon after the last slash: it starts the tag; a colon before that slash belongs to a port.
fn split_tag(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (text, None),
    }
}

/// Splits off the registry. The first word is one if it could not be part of a name: it has a dot or a port, or is
/// `localhost`.
fn split_registry(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
        _ => (None, name),
    }
}

fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        // Without brackets the last colon of an IPv6 address would be taken for a port.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_port = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_address = || {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
    };
    host.len() <= HOST_MAX && port.is_none_or(is_port) && (host.split('.').all(is_label) || is_address())
}

/// Lower-case letters and digits, separated by one `.`, one or two `_`, or any number of `-`.
fn is_component(text: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_separator = |run: &str| matches!(run, "." | "_" | "__") || run.bytes().all(|byte| byte == b'-');
    let separators = text.split(|letter: char| letter.is_ascii() && is_alphanumeric(letter as u8));
    let inner = separators.filter(|run| !run.is_empty()).all(is_separator);
    let edge = |byte: Option<u8>| byte.is_some_and(is_alphanumeric);
    edge(text.bytes().next()) && edge(text.bytes().next_back()) && inner
}

fn is_tag(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    first && text.len() <= TAG_MAX && text.bytes().all(inner)
}

/// Shortens the caller's text for an error message.
fn shorten(text: &str) -> &str {
    match text.char_indices().nth(200) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}
