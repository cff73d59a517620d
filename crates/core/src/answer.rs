//! Answers kept under an idempotency key, so that a client which repeats a request gets the same answer.
//!
//! A key belongs to one run of one tenant. The store notes the key before the call is carried out and adds the answer
//! afterwards. A key without an answer whose caller is gone stands for a call that was cut off: how far it came is
//! unknown.

use std::fmt;
use std::str::FromStr;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{RunId, TenantId};

/// Bounds the key like any other name that is shorter than a path.
const KEY_LEN_MAX: usize = 255;

/// The client's name for one request; the same however often the client sends it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey(String);

/// How the id of an exec begins that was made from a key: under that key it is the request's own, however often the
/// request is sent.
pub const EXEC_OF_KEY: &str = "exec_key_";

impl RequestKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RequestKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let visible =
            (1..=KEY_LEN_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        match visible {
            true => Ok(Self(text.to_owned())),
            false => Err(Error::invalid("Idempotency-Key", "must be 1 to 255 visible ASCII characters")),
        }
    }
}

/// A key with the tenant and the run it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Asked {
    pub tenant: Option<TenantId>,
    pub run: RunId,
    pub key: RequestKey,
}

/// A digest of the request, small enough to store and compare.
pub type Fingerprint = [u8; 32];

/// A kept answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({}, {} bytes)", self.status, self.body.len())
    }
}

/// What the store knows about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recalled {
    /// The key was unknown; the store has noted it now.
    New,
    /// The key stands for a different request.
    Other,
    /// The request is known and has no answer: it is running, or it was cut off.
    Unanswered,
    Answered(Answer),
}

/// How much the store keeps for each tenant, and for the home's own people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bounds keys with an answer and, separately, keys without one, so that neither kind displaces the other.
    pub keys: usize,
    pub bytes: usize,
}

/// Keeps answers. Safe to use from many threads and processes at once.
pub trait Answers: Send + Sync {
    /// Notes a request under its key, unless the key is known. Of many simultaneous callers exactly one gets `New`.
    ///
    /// `now` is observed time. Where the tenant has more unanswered requests than the bounds allow, the oldest of
    /// them are forgotten; never the one that was just noted.
    fn ask(&self, asked: &Asked, question: &Fingerprint, now: Timestamp, bounds: Bounds) -> Result<Recalled>;

    /// Keeps the answer to a noted request; does nothing if the request was forgotten since.
    ///
    /// Where the tenant has more answers than the bounds allow, the oldest of them are forgotten, no more than
    /// necessary; never the one that was just kept.
    fn answer(&self, asked: &Asked, answer: &Answer, bounds: Bounds) -> Result<()>;

    /// Forgets a key, because its request was not carried out and may be sent again.
    fn withdraw(&self, asked: &Asked) -> Result<()>;

    /// Forgets every request noted before `before`, in observed time; returns how many.
    fn forget_asked(&self, before: Timestamp) -> Result<usize>;
}
