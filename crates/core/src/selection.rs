//! Which backend makes a sandbox: what the caller names, else what the operator prefers, and after it only what somebody
//! wrote down to fall back to.
//!
//! Only decides. Whoever carries it out says what each backend answered; nothing is asked that cannot change the choice,
//! so that the ordinary case, one backend and nothing to fall back to, costs nothing.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Kind, Result};

/// The word for the first backend, in the operator's order, that can make the sandbox.
pub const AUTO: &str = "auto";
/// The backend of macOS, as project files of other tools call it. There is none of it on other systems.
pub const MACOS_CONTAINER: &str = "macos-container";
/// Nobody has this many places to make sandboxes at; each may be asked in turn.
const NAMES_MAX: usize = 16;
/// Room for a user, a host and the path of a socket on it.
const NAME_LEN_MAX: usize = 512;
/// A reason is for a person to read; an engine on another machine may send anything.
const REASON_LEN_MAX: usize = 1000;

/// The operator's choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preference {
    /// The one that is used where a caller names none; the first of the roll-call if absent.
    pub backend: Option<String>,
    /// What may be used instead, where a caller names neither a backend nor a fallback.
    pub fallback: Vec<String>,
    /// What [`AUTO`] means; the roll-call if absent.
    pub order: Option<Vec<String>>,
}

impl Preference {
    /// Decides by what the caller wrote: who names a backend wants that one, and no other they did not name.
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
    /// The limits and walls the sandbox demands that it cannot enforce; none where it could not be used at all.
    #[serde(default)]
    pub misfits: Vec<String>,
}

impl Refusal {
    /// Keeps what a backend answered.
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

/// The choice among backends, one after the other.
#[derive(Debug, Clone)]
pub struct Selection {
    candidates: VecDeque<String>,
    /// There never was but one.
    alone: bool,
    refused: Vec<Refusal>,
}

impl Selection {
    /// Starts with what a spec names. `roll` is the roll-call, which stands for what nobody said.
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

    /// Returns those that are left.
    pub fn candidates(&self) -> impl Iterator<Item = &str> {
        self.candidates.iter().map(String::as_str)
    }

    /// Tells whether there is nothing to choose between.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// Returns the next that says it fits, and keeps what the others said. The only one is not asked: making the sandbox
    /// asks it, and says why not.
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

    /// Keeps that a backend did not do it after all.
    pub fn refuse(&mut self, backend: &str, error: &Error) {
        self.refused.push(Refusal::of(backend, error));
    }

    /// Returns those that were not used, in the order they were asked.
    pub fn refused(&self) -> &[Refusal] {
        &self.refused
    }

    /// Says that none is left, and why.
    pub fn exhausted(&self) -> Error {
        let misfits = self.refused.iter().any(|refusal| !refusal.misfits.is_empty());
        // One that is here and cannot enforce what is demanded says more than one that is not here.
        let kind = if misfits { Kind::Unsupported } else { Kind::NotAvailable };
        let reasons: Vec<_> =
            self.refused.iter().map(|refusal| format!("{}: {}", refusal.backend, refusal.reason)).collect();
        Error::new(kind, format!("no backend can do this: {}", reasons.join("; ")))
            .hint("`coracle backends` shows what each can do")
            .detail("refused", listed(&self.refused))
    }
}

/// Tells whether an error in making a sandbox is the backend's fault, so that another one may do better.
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

/// Refuses lists no machine needs and names that could not be a backend's.
pub fn check_names(field: &str, names: &[String]) -> Result<()> {
    if names.len() > NAMES_MAX {
        return Err(Error::invalid(field, format!("names more than {NAMES_MAX} backends")));
    }
    names.iter().try_for_each(|name| check_name(field, name))
}

/// Refuses what could not be the name of a backend; which there are is the roster's to say.
pub fn check_name(field: &str, name: &str) -> Result<()> {
    let printable = name.bytes().all(|byte| byte.is_ascii_graphic());
    // Names reach programs as arguments, where a leading dash means something else.
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
