//! Request ids that the protocol's library cannot represent.
//!
//! JSON-RPC lets a client use any number or string as an id, and the answer must repeat it. The library knows strings
//! and 64-bit integers only. So other numbers come in as a string with a mark and their own text, and go out as that
//! text.

use std::borrow::Cow;
use std::ops::Range;

use rmcp::model::{RequestId, ServerJsonRpcMessage};
use serde::Serialize;

/// The prefix of an id that stands for another one.
const MARK: &str = "coracle-id:";
/// A longer number is no id.
const NUMBER_MAX: usize = 1024;

/// Returns a message with ids the library can represent: its own, and that of a request it cancels.
pub fn held(message: &[u8]) -> Cow<'_, [u8]> {
    let Some(members) = members(message, 0) else { return Cow::Borrowed(message) };
    let find = |members: &[Member], name: &[u8]| {
        members.iter().find(|member| message[member.name.clone()] == *name).map(|member| member.value.clone())
    };
    // Without a method it is an answer to a request of ours.
    let Some(method) = find(&members, b"\"method\"") else { return Cow::Borrowed(message) };
    let mut spans = Vec::from_iter(find(&members, b"\"id\""));
    if message[method] == *b"\"notifications/cancelled\""
        && let Some(params) = find(&members, b"\"params\"")
        && let Some(inner) = self::members(message, params.start)
    {
        spans.extend(find(&inner, b"\"requestId\""));
    }
    spans.sort_by_key(|span| std::cmp::Reverse(span.start));
    let mut whole = Cow::Borrowed(message);
    for span in spans {
        if let Some(id) = replacement(&message[span.clone()]) {
            whole.to_mut().splice(span, id.into_bytes());
        }
    }
    whole
}

/// Returns the replacement of an id, as JSON; `None` where the library can represent it, or where it is no id.
fn replacement(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let is_held = text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
    let is_ours = text.strip_prefix('"').is_some_and(|rest| rest.starts_with(MARK));
    let needed = is_ours || is_number(text) && !is_held;
    needed.then(|| serde_json::to_string(&format!("{MARK}{text}")).unwrap_or_default())
}

/// Returns the text of the id this one stands for.
fn meant(id: &RequestId) -> Option<&str> {
    match id {
        RequestId::String(text) => text.strip_prefix(MARK),
        RequestId::Number(_) => None,
    }
}

/// Serializes a message with the ids its client knows.
pub fn written(message: &ServerJsonRpcMessage) -> serde_json::Result<Vec<u8>> {
    let (id, name, content) = match message {
        ServerJsonRpcMessage::Response(answer) => (meant(&answer.id), "result", json(&answer.result)),
        ServerJsonRpcMessage::Error(answer) => {
            (answer.id.as_ref().and_then(meant), "error", json(&answer.error))
        }
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => {
            return serde_json::to_vec(message);
        }
    };
    let Some(id) = id else { return serde_json::to_vec(message) };
    let mut line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{name}\":").into_bytes();
    line.extend(content()?);
    line.push(b'}');
    Ok(line)
}

/// Returns a serializer that runs only if needed.
fn json<T: Serialize>(content: &T) -> Box<dyn Fn() -> serde_json::Result<Vec<u8>> + '_> {
    Box::new(|| serde_json::to_vec(content))
}

/// Restores the client's id in an answer that the library has serialized.
#[derive(Debug, Clone)]
pub struct Restoring {
    held: Vec<u8>,
    meant: Vec<u8>,
}

impl Restoring {
    /// Returns what restores the id in answers to a message; `None` where the id was not replaced.
    pub fn of(before: &[u8], after: &[u8]) -> Option<Self> {
        let id = |text: &[u8]| -> Option<Vec<u8>> {
            let member =
                members(text, 0)?.into_iter().find(|member| text[member.name.clone()] == *b"\"id\"")?;
            Some(text[member.value].to_vec())
        };
        let (meant, held) = (id(before)?, id(after)?);
        let named = |id: &[u8]| [b"\"id\":", id].concat();
        (meant != held).then(|| Self { held: named(&held), meant: named(&meant) })
    }

    /// Restores the id in a message, or in the event that carries one. Quotes in a command's output are escaped, so a
    /// match is the id.
    pub fn apply(&self, piece: &[u8]) -> Vec<u8> {
        match piece.windows(self.held.len()).position(|window| window == self.held) {
            None => piece.to_vec(),
            Some(at) => [&piece[..at], &self.meant, &piece[at + self.held.len()..]].concat(),
        }
    }
}

/// One member of an object: the ranges of its name, quotes included, and of its value.
#[derive(Debug)]
struct Member {
    name: Range<usize>,
    value: Range<usize>,
}

/// Finds the members of the object that begins at or after `start`. Invalid JSON may be misread: the parser refuses
/// it afterwards.
fn members(text: &[u8], start: usize) -> Option<Vec<Member>> {
    let mut at = blank(text, start);
    if text.get(at) != Some(&b'{') {
        return None;
    }
    let mut members = Vec::new();
    loop {
        // The brace, or a comma.
        at = blank(text, at + 1);
        if text.get(at) == Some(&b'}') {
            return Some(members);
        }
        let name = at..value_end(text, at)?;
        at = blank(text, name.end);
        if text.get(at) != Some(&b':') {
            return None;
        }
        at = blank(text, at + 1);
        let value = at..value_end(text, at)?;
        at = blank(text, value.end);
        members.push(Member { name, value });
        match text.get(at) {
            Some(b',') => {}
            Some(b'}') => return Some(members),
            _ => return None,
        }
    }
}

fn blank(text: &[u8], start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count()
}

/// Returns where the value that begins at `start` ends.
fn value_end(text: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0_usize);
    loop {
        match text.get(at)? {
            b'"' => {
                at = string_end(text, at)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth == 0 => return (at > start).then_some(at),
            b'}' | b']' => {
                depth -= 1;
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return (at > start).then_some(at),
            _ => at += 1,
        }
    }
}

fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Tells whether this is a number as JSON writes them.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    text.len() <= NUMBER_MAX
        && digits(whole)
        && (whole.len() == 1 || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorData;

    use super::*;

    /// Returns an id as the client gets it back.
    fn echoed(id: &str) -> String {
        let asked = format!(r#"{{"jsonrpc":"2.0", "method":"ping","params":{{"id":1.5}}, "id" : {id} }}"#);
        let message: serde_json::Value = serde_json::from_slice(&held(asked.as_bytes())).expect("JSON");
        let id: RequestId = serde_json::from_value(message["id"].clone()).expect("one the library can hold");
        let answer = ServerJsonRpcMessage::error(ErrorData::invalid_request("no", None), Some(id));
        let line = String::from_utf8(written(&answer).expect("it can be written")).expect("text");
        let (_, rest) = line.split_once("\"id\":").expect("an id");
        rest.split_once(",\"error\"").expect("an error behind it").0.to_owned()
    }

    #[test]
    fn every_number_and_string_comes_back_unchanged() {
        let numbers =
            ["0", "-0", "7", "-9223372036854775808", "9223372036854775808", "1.0", "1.5", "1e2", "-2.5E-3"];
        let large = ["123456789012345678901234567890", "1e400", "0.1000000000000000000001"];
        let strings = [r#""""#, r#""a""#, r#""1.5""#, r#""coracle-id:1""#, r#""{\"id\":1}""#, r#""é\\""#];
        for id in numbers.into_iter().chain(large).chain(strings) {
            assert_eq!(echoed(id), id);
        }
    }

    #[test]
    fn what_is_no_id_is_left_to_the_parser() {
        for text in [
            "",
            "[]",
            "{",
            r#"{"id":1.5}"#,
            r#"{"method":"ping","id":01.5}"#,
            r#"{"method":"ping","id":1.}"#,
            r#"{"method":"ping","id":null}"#,
            r#"{"method":"ping","id":[1.5]}"#,
            r#"{"method":"ping","id":1"#,
            r#"{"method":"ping","id":1.5e}"#,
            r#"{"method" "ping","id":1.5}"#,
            r#"{"result":{},"id":1.5}"#,
        ] {
            assert_eq!(held(text.as_bytes()), text.as_bytes(), "{text}");
        }
    }

    #[test]
    fn a_call_is_taken_back_by_the_id_it_was_made_with() {
        let taken_back = br#"{"method":"notifications/cancelled","params":{"requestId":1.5,"reason":"x"}}"#;

        let read: serde_json::Value = serde_json::from_slice(&held(taken_back)).expect("JSON");

        assert_eq!(read["params"]["requestId"], "coracle-id:1.5");
    }

    #[test]
    fn an_answer_of_the_library_carries_the_clients_id() {
        let asked = br#"{"method":"ping","id":2.5}"#;
        let restoring = Restoring::of(asked, &held(asked)).expect("another id");

        let event = restoring.apply(br#"data: {"jsonrpc":"2.0","id":"coracle-id:2.5","result":{}}"#);

        assert_eq!(event, br#"data: {"jsonrpc":"2.0","id":2.5,"result":{}}"#);
        assert!(
            Restoring::of(b"{\"method\":\"ping\",\"id\":2}", &held(b"{\"method\":\"ping\",\"id\":2}"))
                .is_none()
        );
    }
}
