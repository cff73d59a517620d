//! Package managers, and the lockfile by which each is chosen.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A package manager that installs exactly what a lockfile says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ecosystem {
    Pnpm,
    Npm,
    Yarn,
    Uv,
    Pip,
    Cargo,
    Go,
}

impl Ecosystem {
    /// All of them, in the order their lockfiles are looked for.
    pub const ALL: [Self; 7] =
        [Self::Pnpm, Self::Npm, Self::Yarn, Self::Uv, Self::Pip, Self::Cargo, Self::Go];

    /// Returns the name in settings and replies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pnpm => "pnpm",
            Self::Npm => "npm",
            Self::Yarn => "yarn",
            Self::Uv => "uv",
            Self::Pip => "pip",
            Self::Cargo => "cargo",
            Self::Go => "go",
        }
    }

    /// Returns its lockfiles, the one that counts first.
    pub const fn lockfiles(self) -> &'static [&'static str] {
        match self {
            Self::Pnpm => &["pnpm-lock.yaml"],
            // npm ignores a package-lock.json beside an npm-shrinkwrap.json.
            Self::Npm => &["npm-shrinkwrap.json", "package-lock.json"],
            Self::Yarn => &["yarn.lock"],
            Self::Uv => &["uv.lock"],
            Self::Pip => &["pylock.toml", "requirements.txt"],
            Self::Cargo => &["Cargo.lock"],
            Self::Go => &["go.sum"],
        }
    }

    /// Returns the setting with what a filler may reach.
    pub fn setting(self) -> String {
        format!("install.network.{}", self.name())
    }

    /// Returns every lockfile in the order of preference.
    pub fn candidates() -> impl Iterator<Item = (Self, &'static str)> {
        Self::ALL
            .into_iter()
            .flat_map(|ecosystem| ecosystem.lockfiles().iter().map(move |name| (ecosystem, *name)))
    }
}

impl fmt::Display for Ecosystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Ecosystem {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|ecosystem| ecosystem.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|ecosystem| ecosystem.name()).collect();
            Error::invalid(
                "install",
                format!("names `{}`, not one of {}", text.escape_debug(), names.join(", ")),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lockfile_belongs_to_one_package_manager() {
        let mut names: Vec<_> = Ecosystem::candidates().map(|(_, name)| name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();

        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for ecosystem in Ecosystem::ALL {
            assert_eq!(ecosystem.name().parse::<Ecosystem>().ok(), Some(ecosystem));
        }
        assert!("npn".parse::<Ecosystem>().is_err());
    }
}
