//! Names in and of repositories: git's rules for refs, and ours on top.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::ids::RepoId;
use crate::printable::is_hidden;

/// Longest name of a repository: it is part of URLs.
const REPO_NAME_MAX: usize = 100;
/// Longest ref. Git keeps refs as files, so each part also has to fit a file name with `.lock` behind it.
const REF_MAX: usize = 400;
const REF_PART_MAX: usize = 200;

const HEADS: &str = "refs/heads/";
const TAGS: &str = "refs/tags/";
/// Refs that coracle keeps for itself. Clients cannot write them.
const OWN: &str = "refs/coracle/";

/// Gives a checked name what all of them have.
macro_rules! name_type {
    ($name:ident, $check:path) => {
        impl $name {
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
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<Self> {
                $check(&text)?;
                Ok(Self(text))
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                text.to_owned().try_into()
            }
        }
    };
}

/// The name of a hosted repository. Each tenant has its own names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("minLength" = 1, "maxLength" = 100, "pattern" = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$"))]
pub struct RepoName(String);

/// The name of a branch, without `refs/heads/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("minLength" = 1, "maxLength" = 389))]
pub struct BranchName(String);

/// The full name of a ref below `refs/heads/`, `refs/tags/` or `refs/coracle/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("minLength" = 1, "maxLength" = 400))]
pub struct RefName(String);

name_type!(RepoName, check_repo);
name_type!(BranchName, check_branch);
name_type!(RefName, check_ref);

impl BranchName {
    /// Returns the whole ref.
    pub fn full(&self) -> RefName {
        RefName(format!("{HEADS}{}", self.0))
    }
}

impl RefName {
    /// Returns the name of the branch, if it is one.
    pub fn branch(&self) -> Option<BranchName> {
        self.0.strip_prefix(HEADS).map(|name| BranchName(name.to_owned()))
    }

    /// Tells whether clients of git may write it.
    pub fn is_public(&self) -> bool {
        !self.0.starts_with(OWN)
    }
}

fn check_repo(text: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let first = text.as_bytes().first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    // `.git` stands behind a name in URLs, and an id always means the repository with that id.
    let ending = [".git", ".lock", ".bundle", "."].iter().any(|ending| text.ends_with(ending));
    let fits = first && text.len() <= REPO_NAME_MAX && text.bytes().all(allowed);
    match fits && !ending && !text.contains("..") && RepoId::whole(text).is_none() {
        true => Ok(()),
        false => Err(Error::invalid(
            "name",
            "must be 1 to 100 letters, digits, `_`, `-` or `.`, starting with a letter or digit, and not ending in \
             `.git`, `.lock` or `.bundle`",
        )),
    }
}

fn check_branch(text: &str) -> Result<()> {
    let fits = text != "HEAD" && is_ref_path(text) && text.len() + HEADS.len() <= REF_MAX;
    fits.then_some(()).ok_or_else(|| {
        Error::invalid("branch", format!("`{}` is no name for a branch", shown(text))).hint(
            "see `git check-ref-format`; coracle also refuses a leading `-`, and parts of over 200 bytes",
        )
    })
}

fn check_ref(text: &str) -> Result<()> {
    let path = [HEADS, TAGS, OWN].iter().find_map(|place| text.strip_prefix(place));
    let fits = path.is_some_and(is_ref_path) && text.len() <= REF_MAX && text != "refs/heads/HEAD";
    fits.then_some(()).ok_or_else(|| {
        Error::invalid("ref", format!("`{}` is no ref below `{HEADS}` or `{TAGS}`", shown(text)))
    })
}

/// Tells whether git takes this as the name of a ref, and so do we.
fn is_ref_path(text: &str) -> bool {
    let forbidden = |character: char| {
        is_hidden(character) || matches!(character, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\')
    };
    let part_is_fine = |part: &str| {
        !part.is_empty()
            && part.len() <= REF_PART_MAX
            && !part.starts_with(['.', '-'])
            && !part.ends_with(".lock")
    };
    text != "@"
        && !text.ends_with('.')
        && !text.contains("..")
        && !text.contains("@{")
        && !text.chars().any(forbidden)
        && text.split('/').all(part_is_fine)
}

fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_repositories_have_no_meaning_in_a_path_or_a_url() {
        for good in ["a", "my-repo_2.0", "A", "_x"] {
            assert!(good.parse::<RepoName>().is_ok(), "{good}");
        }
        let id = RepoId::generate(crate::Timestamp::from_millis(1), [7; 10]).to_string();
        for bad in
            ["", ".", "..", "-x", ".x", "a/b", "a b", "a.git", "a.lock", "a..b", "ä", "a%2f", "a.", &id]
        {
            assert!(bad.parse::<RepoName>().is_err(), "{bad}");
        }
        assert!("x".repeat(101).parse::<RepoName>().is_err());
    }

    #[test]
    fn names_of_branches_are_those_git_takes_and_harmless_ones() {
        for good in ["main", "a/b", "coracle/run-user_1", "ä", "a@b", "x.y", "a=b"] {
            assert!(good.parse::<BranchName>().is_ok(), "{good}");
        }
        let bad = [
            "",
            "HEAD",
            "@",
            "-x",
            "a/-x",
            "--upload-pack=x",
            "a..b",
            "@{-1}",
            "a@{1}",
            "a b",
            "a\n",
            "a\u{202e}b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a.",
            "\0",
        ];
        for bad in bad {
            assert!(bad.parse::<BranchName>().is_err(), "{bad:?}");
        }
        assert!("x".repeat(201).parse::<BranchName>().is_err());
    }

    #[test]
    fn only_branches_tags_and_our_own_are_refs() {
        let of = |text: &str| text.parse::<RefName>();

        assert_eq!(of("refs/heads/a/b").expect("a ref").branch().expect("a branch").as_str(), "a/b");
        assert!(of("refs/tags/v1").expect("a ref").is_public());
        assert!(!of("refs/coracle/pins/x").expect("a ref").is_public());
        for bad in ["HEAD", "refs/heads/", "refs/heads/HEAD", "refs/notes/x", "refs/tags/-x", "refs/", "main"]
        {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
