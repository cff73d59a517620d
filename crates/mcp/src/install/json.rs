//! Adding an entry to settings in JSON. Everything else stays, in the order it was in.

use std::fmt;

use coracle_core::{Error, Kind, Result};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value};

/// Returns the text with the members of `entry` in `name` under `servers`. Other members that people put there stay.
pub fn merged(text: &str, servers: &str, name: &str, entry: &Map<String, Value>) -> Result<String> {
    let mut settings = match text.trim().is_empty() {
        true => Ordered::Object(Vec::new()),
        false => serde_json::from_str(text).map_err(|error| {
            // Some clients allow comments, which rewriting would lose.
            Error::new(Kind::Invalid, "it is not plain JSON").caused_by(error)
        })?,
    };
    let before = settings.clone();
    let listed = settings.members("settings")?.entry(servers);
    let ours = listed.members(servers)?.entry(name);
    super::expect_program(ours.members(name)?.has("url"))?;
    for (key, value) in entry {
        *ours.members(name)?.entry(key) = value.into();
    }
    if settings == before {
        return Ok(text.to_owned());
    }
    let text = serde_json::to_string_pretty(&settings)
        .map_err(|error| Error::internal("could not write the settings", error))?;
    Ok(text + "\n")
}

/// A JSON value whose objects keep their order.
#[derive(Debug, Clone, PartialEq)]
enum Ordered {
    Object(Vec<(String, Ordered)>),
    Array(Vec<Ordered>),
    Other(Value),
}

/// The members of an object.
struct Members<'a>(&'a mut Vec<(String, Ordered)>);

impl Ordered {
    fn members(&mut self, what: &str) -> Result<Members<'_>> {
        match self {
            Self::Object(members) => Ok(Members(members)),
            Self::Array(_) | Self::Other(_) => {
                Err(Error::new(Kind::Invalid, format!("`{what}` is not an object")))
            }
        }
    }
}

impl<'a> Members<'a> {
    /// Returns a member; adds an empty object if it is missing.
    fn entry(self, name: &str) -> &'a mut Ordered {
        let position = self.0.iter().position(|(key, _)| key == name).unwrap_or_else(|| {
            self.0.push((name.to_owned(), Ordered::Object(Vec::new())));
            self.0.len() - 1
        });
        &mut self.0[position].1
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }
}

impl From<&Value> for Ordered {
    fn from(value: &Value) -> Self {
        match value {
            Value::Object(members) => {
                Self::Object(members.iter().map(|(key, value)| (key.clone(), value.into())).collect())
            }
            Value::Array(items) => Self::Array(items.iter().map(Into::into).collect()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Self::Other(value.clone()),
        }
    }
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                members.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
            Self::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Self::Other(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Ordered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Ordered, E> {
        Ok(Ordered::Other(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Ordered, E> {
        Ok(Ordered::Other(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Ordered, E> {
        Ok(Ordered::Other(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Ordered, E> {
        Ok(Ordered::Other(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Ordered, E> {
        Ok(Ordered::Other(value.into()))
    }

    fn visit_unit<E>(self) -> std::result::Result<Ordered, E> {
        Ok(Ordered::Other(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Ordered, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(Ordered::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> std::result::Result<Ordered, A::Error> {
        let mut all: Vec<(String, Ordered)> = Vec::new();
        while let Some((key, value)) = members.next_entry::<String, Ordered>()? {
            // Which of the two counts depends on the client, so neither is touched.
            if all.iter().any(|(known, _)| *known == key) {
                return Err(de::Error::custom(format!("the key `{}` appears twice", key.escape_debug())));
            }
            all.push((key, value));
        }
        Ok(Ordered::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Map<String, Value> {
        let members = json!({"command": "coracle", "args": ["mcp"]});
        members.as_object().expect("an object").clone()
    }

    #[test]
    fn everything_else_stays_in_its_order() {
        let before = r#"{"z": 1, "mcpServers": {"other": {"command": "x"}}, "a": [1.5, null, true, "é"]}"#;

        let after = merged(before, "mcpServers", "coracle", &entry()).expect("it is JSON");

        let value: Value = serde_json::from_str(&after).expect("it is JSON");
        assert_eq!(value["mcpServers"]["coracle"], Value::Object(entry()));
        assert_eq!(value["mcpServers"]["other"], json!({"command": "x"}));
        assert_eq!(value["a"], json!([1.5, null, true, "é"]));
        assert!(
            after.find("\"z\"") < after.find("\"mcpServers\"")
                && after.find("\"mcpServers\"") < after.find("\"a\"")
        );
    }

    #[test]
    fn what_people_have_added_to_it_stays() {
        let before = r#"{"servers": {"coracle": {"env": {"A": "b"}, "args": ["old"], "timeout": 9}}}"#;

        let after = merged(before, "servers", "coracle", &entry()).expect("it is JSON");

        let value: Value = serde_json::from_str(&after).expect("it is JSON");
        let expected = json!({"env": {"A": "b"}, "args": ["mcp"], "timeout": 9, "command": "coracle"});
        assert_eq!(value["servers"]["coracle"], expected);
        assert_eq!(merged(&after, "servers", "coracle", &entry()).expect("it is JSON"), after);
    }

    #[test]
    fn twice_is_as_good_as_once() {
        let once = merged("", "servers", "coracle", &entry()).expect("nothing is there");

        assert_eq!(merged(&once, "servers", "coracle", &entry()).expect("it is JSON"), once);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for text in [
            "{",
            "[]",
            "3",
            "{\"servers\": 3}",
            "{\"servers\": {\"coracle\": []}}",
            "{\"servers\": {\"coracle\": {\"type\": \"http\", \"url\": \"http://127.0.0.1:1/mcp\"}}}",
            "// comment\n{}",
            "{\"a\": 1, \"a\": 2}",
        ] {
            assert!(merged(text, "servers", "coracle", &entry()).is_err(), "{text}");
        }
    }
}
