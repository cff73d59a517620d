//! Which backend makes a sandbox: the one the caller names, else the one the operator prefers, and after it only
//! those that the caller or the operator listed as fallback.
//!
//! Only decides. The caller asks the backends and passes on what each answered. A backend whose answer cannot change
//! the choice is not asked, so the ordinary case, one backend without fallback, costs nothing.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Kind, Result};

/// The word for the first backend, in the operator's order, that can make the sandbox.
pub const AUTO: &str = "auto";
/// The backend of macOS, by the name project files of other tools use. Other systems do not have it.
pub const MACOS_CONTAINER: &str = "macos-container";
/// More than any machine has; each may be asked in turn.
const NAMES_MAX: usize = 16;
/// Room for a user, a host and the path of a socket on it.
const NAME_LEN_MAX: usize = 512;
/// A reason is for people; a container engine on another machine may send anything.
const REASON_LEN_MAX: usize = 1000;

/// The operator's choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preference {
    /// The backend where a caller names none; the first of the roll-call if absent.
    pub backend: Option<String>,
    /// Backends to try instead, where a caller names neither a backend nor a fallback.
    pub fallback: Vec<String>,
    /// The order that [`AUTO`] tries; the roll-call if absent.
    pub order: Option<Vec<String>>,
}

impl Preference {
    /// Applies the operator's preference to what the caller wrote: a caller that names a backend gets no other it did
    /// not name.
    pub fn resolve(
        &self,
        backend: Option<String>,
        fallback: Vec<String>,
    ) -> Result<(Option<String>, Vec<String>)> {
        backend.iter().try_for_each(|name| check_name("backend", name))?;
        check_names("fallback", &fallback)?;
        Ok(match (backend, fallback) {
            (None, fallback) if fallback.is_empty() => (self.backend.clone(), self.fallback.clone()),
            (None, fallback) => (self.backend.clone(), fallback),
            (Some(backend), fallback) => (Some(backend), fallback),
        })
    }
}

/// A backend that was not used, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    pub backend: String,
    pub reason: String,
    /// The limits and walls that the sandbox demands and the backend cannot enforce; empty where the backend cannot
    /// be used at all.
    #[serde(default)]
    pub misfits: Vec<String>,
}

impl Refusal {
    /// Keeps a backend's error.
    pub fn of(backend: &str, error: &Error) -> Self {
        let misfits = error.details.get("misfits").and_then(Value::as_array);
        let names = misfits.into_iter().flatten().filter_map(Value::as_str);
        Self {
            backend: backend.to_owned(),
            reason: error.chain().chars().take(REASON_LEN_MAX).collect(),
            misfits: names.map(str::to_owned).collect(),
        }
    }
}

/// The backends to try, one after the other.
#[derive(Debug, Clone)]
pub struct Selection {
    candidates: VecDeque<String>,
    /// There was only one from the start.
    alone: bool,
    refused: Vec<Refusal>,
}

impl Selection {
    /// Starts with what a spec names. `roll` is the roll-call, the default.
    pub fn of(backend: Option<&str>, fallback: &[String], preference: &Preference, roll: &[&str]) -> Self {
        let order = match &preference.order {
            Some(order) => order.iter().map(String::as_str).collect(),
            None => roll.to_vec(),
        };
        let first = backend.or(roll.first().copied());
        let mut candidates = VecDeque::new();
        for name in first.into_iter().chain(fallback.iter().map(String::as_str)) {
            let meant = if name == AUTO { order.as_slice() } else { std::slice::from_ref(&name) };
            for name in meant {
                if !candidates.iter().any(|known| known == name) {
                    candidates.push_back((*name).to_owned());
                }
            }
        }
        Self { alone: candidates.len() == 1, candidates, refused: Vec::new() }
    }

    /// Returns the backends that are left.
    pub fn candidates(&self) -> impl Iterator<Item = &str> {
        self.candidates.iter().map(String::as_str)
    }

    /// Tells whether there is no choice.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// Returns the next backend that fits, and keeps what the others answered. An only backend is not asked: making
    /// the sandbox asks it, and says why not.
    pub fn next(&mut self, mut ask: impl FnMut(&str) -> Result<()>) -> Option<String> {
        while let Some(name) = self.candidates.pop_front() {
            if self.alone {
                return Some(name);
            }
            match ask(&name) {
                Ok(()) => return Some(name),
                Err(error) => self.refuse(&name, &error),
            }
        }
        None
    }

    /// Records that a backend failed after all.
    pub fn refuse(&mut self, backend: &str, error: &Error) {
        self.refused.push(Refusal::of(backend, error));
    }

    /// Returns the backends that were not used, in the order they were asked.
    pub fn refused(&self) -> &[Refusal] {
        &self.refused
    }

    /// Returns the error that no backend is left, and why.
    pub fn exhausted(&self) -> Error {
        let misfits = self.refused.iter().any(|refusal| !refusal.misfits.is_empty());
        // A backend that is here and cannot enforce a demand tells more than one that is not here.
        let kind = if misfits { Kind::Unsupported } else { Kind::NotAvailable };
        let reasons: Vec<_> =
            self.refused.iter().map(|refusal| format!("{}: {}", refusal.backend, refusal.reason)).collect();
        Error::new(kind, format!("no backend can do this: {}", reasons.join("; ")))
            .hint("`coracle backends` shows what each can do")
            .detail("refused", listed(&self.refused))
    }
}

/// Tells whether an error in making a sandbox is the backend's fault, so that another backend may succeed.
pub fn may_move_on(kind: Kind) -> bool {
    match kind {
        Kind::NotAvailable | Kind::Unsupported | Kind::StartFailed => true,
        Kind::Invalid
        | Kind::NotFound
        | Kind::NotOwner
        | Kind::StaleEpoch
        | Kind::LentOut
        | Kind::Conflict
        | Kind::LimitExceeded
        | Kind::ImageNotFound
        | Kind::ImageNotAllowed
        | Kind::ExecutionFailed
        | Kind::Timeout
        | Kind::Aborted
        | Kind::EgressDenied
        | Kind::Denied
        | Kind::Internal => false,
    }
}

/// Returns refusals as the details of an error.
pub fn listed(refused: &[Refusal]) -> Value {
    serde_json::to_value(refused).unwrap_or_default()
}

/// Refuses lists longer than any machine needs, and names no backend could have.
pub fn check_names(field: &str, names: &[String]) -> Result<()> {
    if names.len() > NAMES_MAX {
        return Err(Error::invalid(field, format!("names more than {NAMES_MAX} backends")));
    }
    names.iter().try_for_each(|name| check_name(field, name))
}

/// Refuses text that could not be the name of a backend; the roster knows which exist.
pub fn check_name(field: &str, name: &str) -> Result<()> {
    let printable = name.bytes().all(|byte| byte.is_ascii_graphic());
    // Programs get names as arguments, where a leading dash starts an option.
    match printable && !name.is_empty() && !name.starts_with('-') && name.len() <= NAME_LEN_MAX {
        true => Ok(()),
        false => Err(Error::invalid(
            field,
            format!(
                "is `{}`, which is no name of a backend",
                name.chars().take(64).collect::<String>().escape_debug()
            ),
        )),
    }
}
