//! Digests: the only names of content that we trust.

use std::fmt;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, as in `sha256:…`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// Reads a digest. Returns `None` for any algorithm but SHA-256, the only one in use.
    pub fn parse(text: &str) -> Option<Self> {
        let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let hex = text.strip_prefix("sha256:")?;
        (hex.len() == 64 && hex.bytes().all(hexadecimal)).then(|| Self(text.to_owned()))
    }

    /// Digests bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_hash(&Sha256::digest(bytes))
    }

    /// Digests a stream to its end.
    pub fn of_stream(stream: &mut dyn Read) -> io::Result<Self> {
        let mut running = Running::default();
        let mut buffer = vec![0; 128 << 10];
        loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(running.finish()),
                read => running.add(&buffer[..read]),
            }
        }
    }

    pub fn from_hash(hash: &[u8]) -> Self {
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Self(format!("sha256:{hex}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the digits alone, which serve as a file's name.
    pub fn hex(&self) -> &str {
        &self.0["sha256:".len()..]
    }
}

/// A digest in the making.
#[derive(Debug, Clone, Default)]
pub struct Running(Sha256);

impl Running {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> Digest {
        Digest::from_hash(&self.0.finalize())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{}` is not a SHA-256 digest", text.escape_debug()))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}
