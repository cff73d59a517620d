//! Names of things: sandboxes, execs, runs, instances, volumes, repositories and session keys. Parsed from raw input once, at the
//! edge.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::printable::is_hidden;

pub(crate) const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Longest id a caller may choose: leaves room for a prefix within a 255-byte file name.
const CHOSEN_MAX: usize = 128;

/// Defines an id with a prefix; coracle generates it, and it sorts by time of creation.
macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $field:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(extend("minLength" = 1, "maxLength" = 128, "pattern" = "^[A-Za-z0-9_][A-Za-z0-9_.:@-]*$"))]
        pub struct $name(String);

        impl $name {
            /// Makes a fresh id from the time and 80 random bits.
            pub fn generate(now: Timestamp, random: [u8; 10]) -> Self {
                Self(format!(concat!($prefix, "{}"), sortable(now, random)))
            }

            /// Returns the id, if the text is a complete generated one.
            pub fn whole(text: &str) -> Option<Self> {
                let rest = text.strip_prefix($prefix)?;
                let made_up = rest.len() == 26 && rest.bytes().all(|byte| ALPHABET.contains(&byte));
                made_up.then(|| Self(text.to_owned()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<Self> {
                text.parse()
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                check(text, $field)?;
                Ok(Self(text.to_owned()))
            }
        }
    };
}

impl ImageId {
    /// Returns the id, if the image's name is one and not a registry's reference.
    pub fn among_names(name: &str) -> Option<Self> {
        Self::whole(name)
    }
}

id_type!(
    /// Names a sandbox.
    SandboxId, "sbx_", "sandbox_id"
);
id_type!(
    /// Names one command within a sandbox; the caller may choose it.
    ExecId, "exec_", "exec_id"
);
id_type!(
    /// Names the unit that owns sandboxes; the caller may choose it.
    RunId, "run_", "run"
);
id_type!(
    /// Names one home of coracle, so that two on one machine leave each other's sandboxes alone.
    InstanceId, "ins_", "instance"
);
id_type!(
    /// Names an image that was made from a sandbox.
    ImageId, "img_", "image"
);
id_type!(
    /// Names a directory coracle keeps beyond the life of sandboxes; the caller chooses it.
    VolumeName, "vol_", "volume"
);

id_type!(
    /// Names a hosted repository.
    RepoId, "repo_", "repo_id"
);
id_type!(
    /// Names a group of callers that shares a machine with others without seeing them; the operator chooses it.
    TenantId, "tnt_", "tenant"
);
id_type!(
    /// Names a token without its secret, for listings and the audit log.
    TokenId, "tok_", "token"
);

/// The name by which a run finds its sandbox again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("minLength" = 1, "maxLength" = 256))]
pub struct SessionKey(String);

impl SessionKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<SessionKey> for String {
    fn from(key: SessionKey) -> Self {
        key.0
    }
}

impl TryFrom<String> for SessionKey {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl FromStr for SessionKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.is_empty() || text.len() > 256 || text.chars().any(is_hidden) {
            return Err(Error::invalid(
                "session_key",
                "must be 1 to 256 bytes without characters that control a terminal or the direction of text",
            ));
        }
        // The sandbox could not be found by this key: a complete id always means the sandbox with that id.
        match SandboxId::whole(text) {
            Some(id) => {
                Err(Error::invalid("session_key", format!("is `{id}`, which could be a sandbox's id"))
                    .hint("choose a name that does not look like an id"))
            }
            None => Ok(Self(text.to_owned())),
        }
    }
}

/// Reads the key of a record. Older versions accepted characters that are refused now; their sandboxes still exist.
pub(crate) fn stored_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SessionKey>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(SessionKey))
}

/// Ids become file and cgroup names, so the grammar has no character with a meaning in a path or a shell.
fn check(text: &str, field: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'@');
    let first = text.as_bytes().first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    if first && text.len() <= CHOSEN_MAX && text.bytes().all(allowed) {
        return Ok(());
    }
    Err(Error::invalid(
        field,
        "must be 1 to 128 letters, digits, `_`, `-`, `.`, `:` or `@`, starting with a letter or digit",
    ))
}

/// Returns 26 characters that sort by time: 48 bits of milliseconds, then 80 random bits.
fn sortable(now: Timestamp, random: [u8; 10]) -> String {
    let tail = random.iter().fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
    let bits = u128::from(now.as_millis()) << 80 | tail;
    (0..26).rev().map(|index| ALPHABET[(bits >> (index * 5) & 31) as usize] as char).collect()
}
