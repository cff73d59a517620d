//! Which machine an image is for.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A platform as manifests write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    pub os: String,
    pub architecture: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl Platform {
    /// Returns this machine's platform.
    pub fn here() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", None),
            "aarch64" => ("arm64", Some("v8")),
            "x86" => ("386", None),
            "arm" => ("arm", Some("v7")),
            "powerpc64" => ("ppc64le", None),
            other => (other, None),
        };
        Self { os: "linux".into(), architecture: architecture.into(), variant: variant.map(str::to_owned) }
    }

    /// Returns how well this machine runs images for `other`: the more, the better; `None` if it does not.
    fn rank(&self, other: &Platform) -> Option<u32> {
        if self.os != other.os || self.architecture != other.architecture {
            return None;
        }
        match (self.variant.as_deref(), other.variant.as_deref()) {
            // Without a variant it is for all of them.
            (_, None) => Some(1),
            (Some(mine), Some(theirs)) if mine == theirs => Some(2),
            // A later generation of `arm` runs what is for earlier ones.
            (Some(mine), Some(theirs)) if self.architecture == "arm" && theirs < mine => Some(0),
            (None, Some("v1")) if self.architecture == "amd64" => Some(2),
            _ => None,
        }
    }

    pub fn runs(&self, other: &Platform) -> bool {
        self.rank(other).is_some()
    }

    /// Returns the one that this machine runs best; the first of equals.
    pub fn choose<'a, T>(&self, offered: impl Iterator<Item = (&'a Platform, T)>) -> Option<T> {
        let ranked = offered.filter_map(|(platform, item)| Some((self.rank(platform)?, item)));
        ranked.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, item)| item)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) => write!(f, "/{variant}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platform {
        let mut parts = text.split('/').map(str::to_owned);
        let mut next = || parts.next();
        Platform {
            os: next().expect("has a system"),
            architecture: next().expect("has an architecture"),
            variant: next(),
        }
    }

    #[test]
    fn a_machine_takes_what_it_runs_best() {
        let arm = platform("linux/arm/v7");
        let offered = ["linux/amd64", "linux/arm/v5", "linux/arm/v8", "linux/arm/v7"].map(platform);

        let chosen = arm.choose(offered.iter().enumerate().map(|(index, platform)| (platform, index)));

        assert_eq!(chosen, Some(3));
    }

    #[test]
    fn a_machine_takes_nothing_it_does_not_run() {
        let amd64 = platform("linux/amd64");

        assert!(!amd64.runs(&platform("linux/amd64/v3")));
        assert!(!amd64.runs(&platform("windows/amd64")));
        assert!(amd64.runs(&platform("linux/amd64/v1")));
        assert!(platform("linux/arm64/v8").runs(&platform("linux/arm64")));
    }
}
