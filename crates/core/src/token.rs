//! Tokens: what clients show at a door, for which tenant, for which operations and until when.
//!
//! A token is `crl_ID_SECRET`. The store keeps only a digest of the secret, so a reader of the store, or of a copy,
//! has no token. 256 random bits need neither salt nor stretching.

mod scope;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::ceiling::Bounds;
use crate::clock::Timestamp;
use crate::error::{Error, Kind, Result};
use crate::ids::{ALPHABET, TenantId, TokenId};
use crate::printable;

pub use scope::Scope;

const PREFIX: &str = "crl_";
const ID_PREFIX: &str = "tok_";
/// The length of an id without its prefix, and of 256 bits at five per character.
const ID_LEN: usize = 26;
const SECRET_LEN: usize = 52;
/// A label helps people to tell tokens apart.
const LABEL_LEN_MAX: usize = 128;
/// Clocks are corrected by a little now and then. One that is further behind the token's creation was set back, and
/// cannot tell whether the token has expired.
const SLACK: Duration = Duration::from_secs(300);

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub id: TokenId,
    pub tenant: TenantId,
    pub scope: Scope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub created_at: Timestamp,
    /// Never expires if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// The most its bearer may have; the tenant's maximum if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
    pub digest: Digest,
}

/// The properties of a token that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub tenant: TenantId,
    pub scope: Scope,
    pub label: Option<String>,
    /// How long it is valid; without end if absent.
    pub lasts: Option<Duration>,
    /// The most its bearer may have.
    pub bounds: Option<Bounds>,
}

/// Randomness for one token.
#[derive(Clone)]
pub struct Seed {
    pub id: [u8; 10],
    pub secret: [u8; 32],
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(…)")
    }
}

impl Grant {
    /// Makes the token: the value to store, and the text to show once.
    pub fn issue(self, now: Timestamp, seed: &Seed) -> Result<(Token, Shown)> {
        check_label(self.label.as_deref())?;
        self.bounds.as_ref().map_or(Ok(()), Bounds::check_self)?;
        let id = TokenId::generate(now, seed.id);
        let expires_at = self.lasts.map(|lasts| after(now, lasts)).transpose()?;
        let shown = Shown { id: id.clone(), secret: seed.secret };
        let token = Token {
            id,
            tenant: self.tenant,
            scope: self.scope,
            label: self.label,
            created_at: now,
            expires_at,
            revoked_at: None,
            bounds: self.bounds,
            digest: shown.digest(),
        };
        Ok((token, shown))
    }
}

/// Why a token is rejected. Only for the operator's logs: the client learns only that the token is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    WrongSecret,
    Revoked,
    Expired,
    /// By the clock, it was not made yet.
    NotYet,
}

impl Token {
    /// Decides whether the shown text is this token, and whether it is still valid.
    ///
    /// Checks the secret first: a client without it learns nothing of the rest, not even by how long the answer
    /// takes.
    pub fn admit(&self, shown: &Shown, now: Timestamp) -> std::result::Result<(), Rejection> {
        if !self.digest.is(&shown.digest()) {
            return Err(Rejection::WrongSecret);
        }
        match self.status(now) {
            TokenStatus::Valid => Ok(()),
            TokenStatus::Revoked => Err(Rejection::Revoked),
            TokenStatus::Expired => Err(Rejection::Expired),
            TokenStatus::NotYet => Err(Rejection::NotYet),
        }
    }

    /// Tells whether it is valid.
    pub fn status(&self, now: Timestamp) -> TokenStatus {
        if self.revoked_at.is_some() {
            return TokenStatus::Revoked;
        }
        if self.expires_at.is_some_and(|end| now >= end) {
            return TokenStatus::Expired;
        }
        match self.created_at.since(now) > SLACK {
            true => TokenStatus::NotYet,
            false => TokenStatus::Valid,
        }
    }
}

/// Whether a token is valid, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenStatus {
    Valid,
    Revoked,
    Expired,
    /// It was made at a time the clock has not reached, so the clock was set back.
    NotYet,
}

impl TokenStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::NotYet => "not_yet",
        }
    }
}

/// A token as a client shows it. Its text is the secret; it has no other form that could be printed by mistake.
#[derive(Clone, PartialEq, Eq)]
pub struct Shown {
    pub id: TokenId,
    secret: [u8; 32],
}

impl Shown {
    fn digest(&self) -> Digest {
        Digest(Sha256::digest(self.secret).into())
    }

    /// Returns the text to hand to the future bearer.
    pub fn reveal(&self) -> String {
        let id = self.id.as_str().strip_prefix(ID_PREFIX).unwrap_or(self.id.as_str());
        format!("{PREFIX}{id}_{}", encode(&self.secret))
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shown({})", self.id)
    }
}

impl FromStr for Shown {
    type Err = Error;

    /// Reads exactly what [`Shown::reveal`] writes: one token has one text.
    fn from_str(text: &str) -> Result<Self> {
        read(text).ok_or_else(|| Error::new(Kind::Denied, "this is not a token"))
    }
}

fn read(text: &str) -> Option<Shown> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let whole = id.len() == ID_LEN && id.bytes().all(|byte| ALPHABET.contains(&byte));
    let id = whole.then(|| format!("{ID_PREFIX}{id}").parse().ok())??;
    Some(Shown { id, secret: decode(secret)? })
}

/// The stored digest of a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Compares in constant time, so that the duration does not reveal how much is equal.
    fn is(&self, other: &Self) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |sum, (one, other)| sum | (one ^ other));
        std::hint::black_box(differing) == 0
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}

/// Keeps tokens. Safe to use from many threads and processes at once.
pub trait Tokens: Send + Sync {
    /// Stores a new token; it survives power loss. An id that exists is `conflict`.
    fn add(&self, token: &Token) -> Result<()>;

    /// Returns a token, valid or not; `None` if there never was one.
    fn find(&self, id: &TokenId) -> Result<Option<Token>>;

    /// Returns all, oldest first.
    fn list(&self) -> Result<Vec<Token>>;

    /// Invalidates a token for all processes and for good before this returns; power loss does not undo it. A token
    /// that is revoked already keeps its time. An unknown id is `not_found`.
    fn revoke(&self, id: &TokenId, now: Timestamp) -> Result<Token>;
}

/// Returns the error for an id no token has.
pub fn unknown(id: &TokenId) -> Error {
    Error::new(Kind::NotFound, format!("there is no token `{id}`"))
        .hint("`coracle token list` shows those there are")
        .detail("token_id", id.as_str())
}

fn check_label(label: Option<&str>) -> Result<()> {
    let fine = |label: &str| label.len() <= LABEL_LEN_MAX && !label.chars().any(printable::is_hidden);
    match label.is_none_or(fine) {
        true => Ok(()),
        false => Err(Error::invalid("label", "must be at most 128 bytes without control characters")),
    }
}

fn after(now: Timestamp, lasts: Duration) -> Result<Timestamp> {
    let millis = u64::try_from(lasts.as_millis()).ok().filter(|millis| *millis > 0);
    let end = millis.and_then(|millis| now.as_millis().checked_add(millis));
    end.map(Timestamp::from_millis)
        .ok_or_else(|| Error::invalid("expires", "must be longer than nothing and end some day"))
}

/// Writes 256 bits as 52 characters of five bits each; the last four bits are padding.
fn encode(bytes: &[u8; 32]) -> String {
    let bit = |index: usize| bytes.get(index / 8).map_or(0, |byte| byte >> (7 - index % 8) & 1);
    let digit = |place: usize| (0..5).fold(0, |value, step| value << 1 | bit(place * 5 + step));
    (0..SECRET_LEN).map(|place| char::from(ALPHABET[usize::from(digit(place))])).collect()
}

/// Reads exactly what `encode` writes, no other spelling.
fn decode(text: &str) -> Option<[u8; 32]> {
    if text.len() != SECRET_LEN {
        return None;
    }
    let mut bytes = [0; 32];
    for (place, character) in text.bytes().enumerate() {
        let digit = ALPHABET.iter().position(|known| *known == character)?;
        for step in (0..5).filter(|step| digit >> (4 - step) & 1 == 1) {
            let index = place * 5 + step;
            *bytes.get_mut(index / 8)? |= 1 << (7 - index % 8);
        }
    }
    Some(bytes)
}
