//! JSON from outside: bounded in size and depth, and without the ambiguity of a key written twice.

use std::fmt;

use coracle_core::{Error, Kind, Result};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The most bytes of JSON an operation takes.
pub const INPUT_MAX: usize = 16 << 20;

/// Reads one JSON value.
///
/// Two readers of `{"a": 1, "a": 2}` may disagree on what it says, so it is refused. The depth is bounded by
/// serde_json, at 128.
pub fn parse(text: &[u8]) -> Result<Value> {
    if text.len() > INPUT_MAX {
        return Err(refuse(format!("it has {} bytes, more than {INPUT_MAX}", text.len())));
    }
    match serde_json::from_slice::<Strict>(text) {
        Ok(Strict(value)) => Ok(value),
        Err(error) => Err(refuse(error.to_string())),
    }
}

fn refuse(why: String) -> Error {
    Error::new(Kind::Invalid, format!("the input is not valid JSON: {why}"))
}

/// A value in which every key stands once.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(Once).map(Self)
    }
}

struct Once;

impl<'de> Visitor<'de> for Once {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> std::result::Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> std::result::Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if all.contains_key(&key) {
                return Err(de::Error::custom(format!("the key `{}` stands twice", key.escape_debug())));
            }
            let Strict(value) = entries.next_value()?;
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}
