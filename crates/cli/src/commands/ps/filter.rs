//! `ps --filter FIELD=VALUE`: selects the listed sandboxes.

use std::str::FromStr;

use coracle::{Error, Kind, Result};
use coracle_core::State;
use coracle_engine::ops::sandbox::list::Summary;

/// A field of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Id,
    Key,
    State,
    Image,
    Backend,
    Owner,
    Label,
}

/// One field and its required value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    field: Field,
    value: String,
}

impl Filter {
    /// Tells whether filters let a sandbox through: for each field that has filters, one of them must fit.
    pub fn admit(filters: &[Self], sandbox: &Summary) -> bool {
        filters
            .iter()
            .all(|filter| filters.iter().any(|other| other.field == filter.field && other.fits(sandbox)))
    }

    /// Tells whether a filter asks for ended sandboxes.
    pub fn wants_ended(&self) -> bool {
        self.field == Field::State && state(&self.value).is_ok_and(State::is_ended)
    }

    fn fits(&self, sandbox: &Summary) -> bool {
        let value = self.value.as_str();
        match self.field {
            Field::Id => {
                let id = sandbox.sandbox_id.as_str();
                id.starts_with(value) || id.trim_start_matches("sbx_").starts_with(value)
            }
            Field::Key => sandbox.session_key.as_ref().is_some_and(|key| key.as_str() == value),
            Field::State => sandbox.state.to_string() == value,
            Field::Image => sandbox.image == value,
            Field::Backend => sandbox.backend == value,
            Field::Owner => sandbox.owner.as_ref().is_some_and(|owner| owner.as_str() == value),
            Field::Label => match value.split_once('=') {
                Some((name, value)) => sandbox.labels.get(name).is_some_and(|label| label == value),
                None => sandbox.labels.contains_key(value),
            },
        }
    }
}

/// Returns the state of this name. Other tools say `running` for `ready`.
fn state(name: &str) -> Result<State> {
    let mut all = State::ALL.into_iter().filter(|state| *state != State::Spare);
    all.clone().find(|state| state.to_string() == name).ok_or_else(|| {
        let names: Vec<_> = all.by_ref().map(|state| state.to_string()).collect();
        let hint = match name {
            "running" => "did you mean `ready`?".to_owned(),
            "exited" | "stopped" | "dead" => "did you mean `destroyed`?".to_owned(),
            _ => format!("it is one of {}", names.join(", ")),
        };
        Error::new(Kind::Invalid, format!("`{}` is not a state", name.escape_debug())).hint(hint)
    })
}

impl FromStr for Filter {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |message| {
            Error::new(Kind::Invalid, message)
                .hint("FIELD is one of id, key, state, image, backend, owner, label")
        };
        let (field, value) = text
            .split_once('=')
            .ok_or_else(|| refuse(format!("`{}` is not `FIELD=VALUE`", text.escape_debug())))?;
        let field = match field {
            "id" => Field::Id,
            "key" | "name" => Field::Key,
            "state" | "status" => Field::State,
            "image" | "ancestor" => Field::Image,
            "backend" => Field::Backend,
            "owner" => Field::Owner,
            "label" => Field::Label,
            other => return Err(refuse(format!("there is no field `{}`", other.escape_debug()))),
        };
        if field == Field::State {
            state(value)?;
        }
        Ok(Self { field, value: value.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use coracle_core::{Epoch, Timestamp};

    use super::*;

    fn sandbox(key: &str) -> Summary {
        Summary {
            sandbox_id: "sbx_01k".parse().expect("an id"),
            state: State::Ready,
            owner: None,
            epoch: Epoch::FIRST,
            backend: "native".to_owned(),
            image: "host".to_owned(),
            session_key: Some(key.parse().expect("a key")),
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
            labels: BTreeMap::from([("team".to_owned(), "a=b".to_owned())]),
            idle_since: None,
            reason: None,
            forked_from: None,
            kept: None,
        }
    }

    fn admits(filters: &[&str], key: &str) -> bool {
        let filters: Vec<_> = filters.iter().map(|text| text.parse().expect("a filter")).collect();
        Filter::admit(&filters, &sandbox(key))
    }

    #[test]
    fn filters_on_one_field_are_alternatives_and_on_several_all_have_to_fit() {
        assert!(admits(&[], "web"));
        assert!(admits(&["key=db", "name=web"], "web"));
        assert!(admits(&["key=web", "state=ready", "image=host", "id=01", "id=sbx_01k"], "web"));
        assert!(!admits(&["key=web", "state=paused"], "web"));
        assert!(admits(&["label=team"], "web") && admits(&["label=team=a=b"], "web"));
        assert!(!admits(&["label=team=c"], "web") && !admits(&["owner="], "web"));
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for text in ["", "key", "colour=red", "=x", "state=nonsense", "status=running", "state=spare"] {
            assert!(text.parse::<Filter>().is_err(), "{text}");
        }
    }
}
