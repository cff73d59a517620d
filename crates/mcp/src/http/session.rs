//! The session id of an older client. It grants nothing: it tells calls of one client from another's.
//!
//! Nothing is stored, so a restarted daemon recognises it, too. It is bound to its caller: another caller's is
//! refused, and an invented one gains nothing.

use std::fmt;

use axum::http::HeaderMap;
use coracle_core::{Error, Kind, Result};
use sha2::{Digest, Sha256};

use super::SESSION;

/// From this revision on there are no sessions, and session headers are ignored.
const SESSIONLESS: &str = "2026-07-28";
const VERSION: &str = "mcp-protocol-version";

/// Bytes of the random half and of the half that binds it.
const HALF: usize = 16;

/// A session id of one caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    random: String,
    binding: String,
}

impl Session {
    /// Generates one for a caller.
    pub fn new(who: &str) -> Result<Self> {
        let mut random = [0; HALF];
        getrandom::fill(&mut random)
            .map_err(|error| Error::internal("could not get random numbers", error))?;
        Ok(Self::of(hex(&random), who))
    }

    fn of(random: String, who: &str) -> Self {
        let digest = Sha256::new().chain_update(&random).chain_update(who).finalize();
        let binding = hex(&digest[..HALF]);
        Self { random, binding }
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.random, self.binding)
    }
}

/// Returns the session that a request names, or refuses one that is not the caller's.
pub fn presented(headers: &HeaderMap, who: &str) -> Result<Option<Session>> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if text(VERSION).is_some_and(|version| version >= SESSIONLESS) {
        return Ok(None);
    }
    let Some(id) = text(SESSION) else { return Ok(None) };
    let session = id.is_ascii().then(|| id.split_at_checked(2 * HALF)).flatten();
    let session = session.map(|(random, _)| Session::of(random.to_owned(), who));
    match session.filter(|session| session.to_string() == id) {
        Some(session) => Ok(Some(session)),
        None => Err(Error::new(Kind::NotFound, "there is no such session").hint("initialize again")),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(id: &str, version: &str) -> HeaderMap {
        let value = |text: &str| text.parse().expect("plain text");
        HeaderMap::from_iter([
            (SESSION.parse().expect("a name"), value(id)),
            (VERSION.parse().expect("a name"), value(version)),
        ])
    }

    #[test]
    fn a_session_belongs_to_its_caller_alone() {
        let session = Session::new("token:a").expect("there is randomness");
        let headers = shown(&session.to_string(), "2025-11-25");

        assert_eq!(presented(&headers, "token:a").expect("its own"), Some(session));
        assert_eq!(presented(&headers, "token:b").expect_err("stolen").kind, Kind::NotFound);
    }

    #[test]
    fn what_was_never_given_is_refused_and_newer_revisions_do_not_look() {
        for id in ["", "x", "0123456789abcdef0123456789abcdef", &"0".repeat(64), &"é".repeat(40)] {
            assert!(presented(&shown(id, "2025-06-18"), "token:a").is_err(), "{id}");
            assert!(matches!(presented(&shown(id, "2026-07-28"), "token:a"), Ok(None)), "{id}");
        }
    }
}
