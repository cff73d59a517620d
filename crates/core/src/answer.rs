//! Answers that are kept under a key, so that whoever asks again, not knowing whether it was heard, is told the same.
//!
//! A key belongs to one run of one tenant. It is noted before the call is carried out and gets its answer afterwards: one
//! without an answer whose caller is gone is a call that was cut off, and nobody knows how far it came.

use std::fmt;
use std::str::FromStr;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{RunId, TenantId};

/// As long as anything that is shorter than a path.
const KEY_LEN_MAX: usize = 255;

/// What a caller calls one request, however often it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey(String);

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

/// Whose key it is, and the key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Asked {
    pub tenant: Option<TenantId>,
    pub run: RunId,
    pub key: RequestKey,
}

/// What was asked, in so few bytes that it can be compared.
pub type Fingerprint = [u8; 32];

/// What was answered.
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

/// What is known under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recalled {
    /// Nothing was; from now on this question is.
    New,
    /// Another question was asked under it.
    Other,
    /// It was asked, and has no answer: it is under way, or was cut off.
    Unanswered,
    Answered(Answer),
}

/// What may be kept for each tenant, and for the home's own people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Of those with an answer, and as many again of those without: neither takes the room of the other.
    pub keys: usize,
    pub bytes: usize,
}

/// Keeps answers. Safe to use from many threads and processes at once.
pub trait Answers: Send + Sync {
    /// Notes a question under its key, unless the key is known. Of many at once exactly one is told `New`.
    ///
    /// `now` is observed time. What the same tenant asked longest ago and has no answer to is forgotten, as much as is
    /// beyond the bounds; never the question that was just noted.
    fn ask(&self, asked: &Asked, question: &Fingerprint, now: Timestamp, bounds: Bounds) -> Result<Recalled>;

    /// Keeps the answer to what was noted; nothing if that was forgotten since.
    ///
    /// What was answered to the same tenant longest ago is forgotten, as much as is beyond the bounds and no more; never
    /// the answer that was just kept.
    fn answer(&self, asked: &Asked, answer: &Answer, bounds: Bounds) -> Result<()>;

    /// Forgets a key: what was asked was not done, and may be asked anew.
    fn withdraw(&self, asked: &Asked) -> Result<()>;

    /// Forgets everything that was asked before `before`, in observed time; returns how much.
    fn forget_asked(&self, before: Timestamp) -> Result<usize>;
}
