//! Settings about hosted repositories.

use std::ffi::OsString;

use coracle_core::bytes::Bytes;
use coracle_core::{Error, Result};

use super::layers::{Found, Layers};
use super::{Setting, setting};

/// As much as the largest hosts accept of one push.
const PUSH_MAX: Bytes = Bytes(2 << 30);

/// What is settled for hosted repositories.
#[derive(Debug, Clone)]
pub struct Repos {
    /// Where git is looked for, as in `PATH`.
    pub search: OsString,
    /// The most bytes one push may bring.
    pub push_max: u64,
}

impl Default for Repos {
    fn default() -> Self {
        Self { search: super::search_path(), push_max: PUSH_MAX.0 }
    }
}

/// All settings about hosted repositories, resolved.
#[derive(Debug)]
pub struct RepoSettings {
    push_max: Found<Bytes>,
}

impl RepoSettings {
    pub(super) fn from(layers: &Layers<'_>) -> Result<Self> {
        let push_max =
            layers.of_file(|file| file.repos.push_max, PUSH_MAX).checked(|Bytes(most)| match most {
                0 => Err(Error::invalid("repos.push_max", "must be at least 1")),
                _ => Ok(()),
            })?;
        Ok(Self { push_max })
    }

    pub fn repos(&self) -> Repos {
        Repos { push_max: self.push_max.value.0, ..Repos::default() }
    }

    /// Returns every setting for display.
    pub fn settings(&self) -> Vec<Setting> {
        vec![setting("repos.push_max", self.push_max.value.to_string(), &self.push_max.source)]
    }
}
