//! Which images may be used at all.

use std::str::FromStr;

use super::{HOST, Reference};
use crate::error::{Error, Kind, Result};

/// The registry part of names that belong to no registry.
const LOCALHOST: &str = "localhost";

/// The operator's list. An absent list allows everything, an empty one nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    patterns: Option<Vec<String>>,
}

impl Allowed {
    /// Allows only what matches one of the patterns: `host`, a name for all its tags, a name with a tag or digest, or a
    /// prefix that ends in `*`. Short names mean what they mean everywhere: `python` is `docker.io/library/python`.
    pub fn only(patterns: Vec<String>) -> Result<Self> {
        let patterns = patterns.iter().map(|pattern| canonical(pattern)).collect::<Result<_>>()?;
        Ok(Self { patterns: Some(patterns) })
    }

    /// Returns the patterns, if there is a list.
    pub fn patterns(&self) -> Option<&[String]> {
        self.patterns.as_deref()
    }

    /// Refuses the machine's own programs if they are not on the list.
    pub fn check_host(&self) -> Result<()> {
        self.check(HOST, |pattern| pattern == HOST)
    }

    /// Refuses an image made from a sandbox, unless everything is allowed: what is in it is on no list.
    pub fn check_snapshot(&self, image: &str) -> Result<()> {
        self.check(image, |pattern| pattern == "*")
    }

    /// Refuses to give a name on the list to an image built here: its contents are on no list. Names at `localhost`
    /// belong to no registry; an operator who lists them means such images.
    pub fn check_built(&self, tag: &Reference) -> Result<()> {
        let own = tag.registry() == LOCALHOST;
        let everything =
            self.patterns.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern == "*"));
        match everything || own {
            true => self.check_reference(tag),
            false => {
                Err(Error::new(Kind::ImageNotAllowed, format!("no image built here may be called `{tag}`"))
                    .detail("image", tag.to_string())
                    .hint(
                        "where `images.allow` has a list, give it a name at `localhost/` that is on the list",
                    ))
            }
        }
    }

    /// Refuses an image that is not on the list.
    pub fn check_reference(&self, reference: &Reference) -> Result<()> {
        let whole = reference.to_string();
        let name = reference.name();
        let tagged = reference.tag().map(|tag| format!("{name}:{tag}"));
        let pinned = reference.digest().map(|digest| format!("{name}@{digest}"));
        self.check(&whole, |pattern| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            // A digest decides what runs, whatever tag is written beside it: a pattern with a tag does not cover it.
            None if pinned.is_some() => {
                pattern == name || Some(pattern) == pinned.as_deref() || pattern == whole
            }
            None => pattern == name || Some(pattern) == tagged.as_deref(),
        })
    }

    fn check(&self, image: &str, matches: impl Fn(&str) -> bool) -> Result<()> {
        let Some(patterns) = &self.patterns else { return Ok(()) };
        if patterns.iter().any(|pattern| matches(pattern)) {
            return Ok(());
        }
        let hint = match patterns.is_empty() {
            true => "the operator's settings allow no image at all (`images.allow`)".to_owned(),
            false => format!("the operator allows {} (`images.allow`)", patterns.join(", ")),
        };
        Err(Error::new(Kind::ImageNotAllowed, format!("image `{image}` is not allowed here"))
            .detail("image", image)
            .detail("allowed", patterns.clone())
            .hint(hint))
    }
}

/// Writes a pattern as references are written, so that text can be compared with text.
fn canonical(pattern: &str) -> Result<String> {
    let refuse = || Error::invalid("images.allow", format!("has the pattern `{}`", pattern.escape_debug()));
    if pattern == HOST || pattern == "*" {
        return Ok(if pattern == "*" { "*".to_owned() } else { HOST.to_owned() });
    }
    if let Some(prefix) = pattern.strip_suffix('*') {
        // Whole words only: `docker.io/lib*` would also allow `docker.io/library-of-mallory/…`.
        let parent = prefix.strip_suffix('/').ok_or_else(refuse)?;
        // With two more words below it, a name is never short, so it is not expanded.
        let below = Reference::from_str(&format!("{parent}/x/x")).map_err(|_| refuse())?.name();
        return Ok(format!("{}/*", below.strip_suffix("/x/x").ok_or_else(refuse)?));
    }
    let reference = Reference::from_str(pattern).map_err(|_| refuse())?;
    let written_tag =
        reference.digest().is_some() || pattern.rsplit_once(':').is_some_and(|(_, tag)| !tag.contains('/'));
    Ok(if written_tag { reference.to_string() } else { reference.name() })
}
