//! Answers of tools: the output of an operation, or its error, as data and as text.
//!
//! The protocol wants the data as text, too, for clients that read only text. A long answer would be in memory and on
//! the wire twice, so its text has only the beginning and the end of long parts.

use std::io;

use coracle_core::{Error, Result};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

/// Up to this size, the text of an answer is the answer itself. A chunk of output fits, so that a client which reads
/// only text can read everything, chunk by chunk.
const TEXT_MAX: usize = 128 << 10;
/// How much is left of a long text at each of its ends, and of a long list in all.
const END_LEN: usize = 4 << 10;
const ITEMS_MAX: usize = 16;

/// Turns the result of an operation into the answer of a tool.
///
/// A failure is an answer, too: clients do not show protocol errors to the model, which could then not act on them. A
/// command with an exit code other than 0 is no failure.
pub fn of(outcome: Result<Value>) -> CallToolResult {
    match outcome {
        Ok(output) => {
            let text = text_of(&output);
            // Made empty: the library would serialize all of it once more.
            let mut result = CallToolResult::structured(Value::Null);
            result.content = vec![ContentBlock::text(text)];
            result.structured_content = Some(output);
            result
        }
        Err(error) => refusal(&error),
    }
}

pub fn refusal(error: &Error) -> CallToolResult {
    CallToolResult::structured_error(error.to_json())
}

/// Returns an answer as text, with long parts shortened.
fn text_of(output: &Value) -> String {
    let mut text = Bounded(Vec::new());
    match serde_json::to_writer(&mut text, output) {
        Ok(()) => String::from_utf8(text.0).unwrap_or_default(),
        Err(_) => shortened(output).to_string(),
    }
}

fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > 3 * END_LEN => {
            let head = &text[..text.floor_char_boundary(END_LEN)];
            let tail = &text[text.ceil_char_boundary(text.len() - END_LEN)..];
            let left_out = text.len() - head.len() - tail.len();
            format!("{head}\n[{left_out} bytes are left out here, and are in structuredContent]\n{tail}")
                .into()
        }
        Value::Array(items) => {
            let left_out = items.len().saturating_sub(ITEMS_MAX);
            let note = format!("[{left_out} more are in structuredContent]");
            let note = (left_out > 0).then(|| note.into());
            items.iter().take(ITEMS_MAX).map(shortened).chain(note).collect()
        }
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), shortened(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// A writer that fails once the text is too long.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self.0.len() + data.len() <= TEXT_MAX {
            true => self.0.write(data),
            false => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(result: &CallToolResult) -> &str {
        &result.content[0].as_text().expect("a text").text
    }

    #[test]
    fn a_short_answer_is_the_same_as_text() {
        let output = json!({"stdout": "42\n", "exit_code": 0});

        let result = of(Ok(output.clone()));

        assert_eq!(serde_json::from_str::<Value>(text(&result)).expect("JSON"), output);
        assert_eq!((result.structured_content, result.is_error), (Some(output), Some(false)));
    }

    #[test]
    fn a_long_answer_is_carried_once() {
        let output = json!({"stdout": "é".repeat(1 << 20), "chunks": vec!["x"; 100_000], "exit_code": 3});

        let result = of(Ok(output.clone()));

        assert!(text(&result).len() < 16 << 10, "{} bytes", text(&result).len());
        let shown: Value = serde_json::from_str(text(&result)).expect("JSON");
        assert_eq!((&shown["exit_code"], shown["chunks"].as_array().map(Vec::len)), (&json!(3), Some(17)));
        assert!(shown["stdout"].as_str().is_some_and(|text| text.contains("are in structuredContent")));
        assert_eq!(result.structured_content, Some(output));
    }
}
