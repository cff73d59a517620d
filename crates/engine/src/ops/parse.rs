//! JSON from outside: bounded in size and depth, and without the ambiguity of a key written twice.

use std::cell::Cell;
use std::fmt;

use coracle_core::complaint::plainly;
use coracle_core::{Error, Kind, Result};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The most bytes of JSON an operation takes.
pub const INPUT_MAX: usize = 16 << 20;
/// The most values in it: each takes many times what it is written in, and no operation needs a tenth of these.
const VALUES_MAX: usize = 200_000;

/// Reads one JSON value.
///
/// Two readers of `{"a": 1, "a": 2}` may disagree on what it says, so it is refused. The depth is bounded by
/// serde_json, at 128.
pub fn parse(text: &[u8]) -> Result<Value> {
    if text.len() > INPUT_MAX {
        return Err(refuse(format!("it has {} bytes, more than {INPUT_MAX}", text.len())));
    }
    let count = Cell::new(0);
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = Once(&count).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| refuse(plainly(&error.to_string())))
}

fn refuse(why: String) -> Error {
    Error::new(Kind::Invalid, format!("the input is not valid JSON: {why}"))
}

/// Reads a value in which every key stands once, and counts it.
#[derive(Clone, Copy)]
struct Once<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Once<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Value, D::Error> {
        self.0.set(self.0.get() + 1);
        match self.0.get() <= VALUES_MAX {
            true => deserializer.deserialize_any(self),
            false => Err(de::Error::custom(format!("it has more than {VALUES_MAX} values"))),
        }
    }
}

impl<'de> Visitor<'de> for Once<'_> {
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
        while let Some(item) = items.next_element_seed(self)? {
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
            let value = entries.next_value_seed(self)?;
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}
