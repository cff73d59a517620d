//! Serde's messages about data it could not read, reworded for people: serde's own words are Rust's types.

/// Returns a serde message as the end of a sentence about the value or the document; returns other text unchanged.
pub fn plainly(complaint: &str) -> String {
    let ended = || {
        let rest = complaint.strip_prefix("EOF while parsing ")?;
        Some(format!("it ends in the middle of {rest}"))
    };
    mismatch(complaint).or_else(|| field(complaint)).or_else(ended).unwrap_or_else(|| complaint.to_owned())
}

/// Returns the name of the field, if the message is about one that is missing or not allowed.
pub fn named_field(complaint: &str) -> Option<&str> {
    let is_named = complaint.starts_with("unknown field") || complaint.starts_with("missing field");
    complaint.split('`').nth(1).filter(|_| is_named)
}

fn mismatch(complaint: &str) -> Option<String> {
    for beginning in ["invalid type: ", "invalid value: "] {
        if let Some((found, expected)) = complaint.strip_prefix(beginning).and_then(parted) {
            return Some(format!("is {} and not {}", what_is_there(found), what_is_wanted(found, expected)));
        }
    }
    if let Some((found, expected)) = complaint.strip_prefix("unknown variant ").and_then(parted) {
        return Some(format!("is {found} and not {expected}"));
    }
    let (found, expected) = complaint.strip_prefix("invalid length ").and_then(parted)?;
    Some(format!("has {found} parts and not {}", what_is_wanted(found, expected)))
}

/// Splits what was found from what was expected. The first part may hold any text; the second is ours.
fn parted(rest: &str) -> Option<(&str, &str)> {
    rest.rsplit_once(", expected ")
}

fn field(complaint: &str) -> Option<String> {
    let name = complaint.split('`').nth(1)?;
    match complaint.split('`').next()? {
        "unknown field " => {
            let known =
                complaint.split_once(", expected ").map(|(_, known)| known.trim_start_matches("one of "));
            let known = known.map(|known| format!("; there are {known}")).unwrap_or_default();
            Some(format!("there is no field `{name}`{known}"))
        }
        "missing field " => Some(format!("the field `{name}` is missing")),
        "duplicate field " => Some(format!("the field `{name}` is there twice")),
        _ => None,
    }
}

fn what_is_there(found: &str) -> String {
    let quoted = |prefix: &str| found.strip_prefix(prefix).map(|value| value.trim_matches('`'));
    if let Some(number) = quoted("integer ").or(quoted("floating point ")) {
        return format!("the number {number}");
    }
    if let Some(value) = quoted("boolean ") {
        return value.to_owned();
    }
    if let Some(text) = found.strip_prefix("string ") {
        return format!("the text {text}");
    }
    match found {
        "sequence" | "array" => "a list".to_owned(),
        "map" | "table" => "an object".to_owned(),
        "unit value" | "null" => "null".to_owned(),
        other => other.to_owned(),
    }
}

fn what_is_wanted(found: &str, expected: &str) -> String {
    let is_negative = found.contains("`-");
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" if is_negative => "a whole number from 0 on".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" => {
            "a whole number".to_owned()
        }
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "str" | "string or map" => "a text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        other if other.starts_with("struct ") || other.contains("tagged enum") => "an object".to_owned(),
        other if other.starts_with("tuple ") => "a list".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::DeserializeOwned;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[expect(dead_code, reason = "only what serde says of it matters")]
        count: u64,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        Keep,
        Kill,
    }

    fn wording<T: DeserializeOwned + std::fmt::Debug>(json: &str) -> String {
        let value: serde_json::Value = serde_json::from_str(json).expect("JSON");
        plainly(&serde_json::from_value::<T>(value).expect_err("it does not fit").to_string())
    }

    #[test]
    fn types_become_plain_words() {
        assert_eq!(wording::<u64>("\"x\""), "is the text \"x\" and not a whole number");
        assert_eq!(wording::<u64>("-1"), "is the number -1 and not a whole number from 0 on");
        assert_eq!(wording::<usize>("1.5"), "is the number 1.5 and not a whole number");
        assert_eq!(wording::<bool>("null"), "is null and not true or false");
        assert_eq!(wording::<Vec<String>>("{}"), "is an object and not a list");
        assert_eq!(wording::<Vec<String>>("[true]"), "is true and not a text");
        assert_eq!(wording::<Sample>("\"x\""), "is the text \"x\" and not an object");
        assert_eq!(wording::<Word>("\"x\""), "is `x` and not `keep` or `kill`");
        assert_eq!(wording::<Word>("[]"), "is a list and not a text");
    }

    #[test]
    fn fields_become_plain_words() {
        assert_eq!(wording::<Sample>("{}"), "the field `count` is missing");
        assert_eq!(
            wording::<Sample>("{\"count\": 1, \"more\": 2}"),
            "there is no field `more`; there are `count`"
        );
        assert_eq!(plainly("unknown field `more`"), "there is no field `more`");
        assert_eq!(named_field("unknown field `more`, expected `count`"), Some("more"));
        assert_eq!(named_field("invalid type: string \"`a`\", expected u64"), None);
    }

    #[test]
    fn what_is_not_serdes_stays_as_it_is() {
        assert_eq!(plainly("EOF while parsing an object"), "it ends in the middle of an object");
        assert_eq!(plainly("`ttl` must be short"), "`ttl` must be short");
        assert_eq!(plainly(""), "");
    }
}
