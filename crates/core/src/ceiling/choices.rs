//! The fields of a sandbox a model may choose, within the ceiling.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};
use crate::spec::{Purpose, SpecInput};

/// A field that a person can open to a model. Fields that touch the machine are not among them: mounts, privileges,
/// backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    Image,
    Network,
    Limits,
}

impl Choice {
    pub const ALL: [Self; 3] = [Self::Image, Self::Network, Self::Limits];

    /// Returns the field's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Network => "network",
            Self::Limits => "limits",
        }
    }
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::new(Kind::Invalid, format!("`{}` cannot be left to a model", text.escape_debug()))
                .hint(format!("use some of: {names}"))
                .detail("field", "let_choose")
        })
    }
}

/// The fields that are open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Choices(BTreeSet<Choice>);

impl Choices {
    pub fn has(&self, choice: Choice) -> bool {
        self.0.contains(&choice)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Choice> {
        self.0.iter().copied()
    }

    /// Refuses a field that is not open. The program of `sandbox_run` may always have a language and variables of its
    /// own.
    pub(super) fn check(&self, written: &SpecInput, purpose: Purpose) -> Result<()> {
        let SpecInput {
            image,
            runtime,
            env,
            workdir,
            user,
            limits,
            storage,
            network,
            mounts,
            privileges,
            backend,
            fallback,
            ttl,
            on_idle,
            labels,
            require,
            allow_missing,
            allow_sockets,
            repo,
            install,
        } = written;
        let once = purpose == Purpose::OneCommand;
        let fields = [
            ("image", image.is_some() && !self.has(Choice::Image)),
            ("network", network.is_some() && !self.has(Choice::Network)),
            ("limits", limits.is_some() && !self.has(Choice::Limits)),
            ("runtime", runtime.is_some() && !once),
            ("env", !env.is_empty() && !once),
            ("workdir", workdir.is_some()),
            ("user", user.is_some()),
            ("storage", storage.is_some()),
            ("mounts", !mounts.is_empty()),
            ("privileges", privileges.is_some()),
            ("backend", backend.is_some()),
            ("fallback", !fallback.is_empty()),
            ("ttl", ttl.is_some()),
            ("on_idle", on_idle.is_some()),
            ("labels", !labels.is_empty()),
            ("require", !require.is_empty()),
            ("allow_missing", !allow_missing.is_empty()),
            ("allow_sockets", *allow_sockets),
            ("repo", repo.is_some()),
            ("install", install.is_some()),
        ];
        match fields.iter().find(|(_, is_written)| *is_written) {
            None => Ok(()),
            Some((field, _)) => Err(Error::invalid(field, "may not be chosen here")
                .hint("leave it out; the person who started this server has chosen it")),
        }
    }
}

impl FromIterator<Choice> for Choices {
    fn from_iter<I: IntoIterator<Item = Choice>>(choices: I) -> Self {
        Self(choices.into_iter().collect())
    }
}
