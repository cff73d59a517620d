//! What a client hears: the output of an operation, or why there is none, as data and as text.

use coracle_core::{Error, Result};
use rmcp::model::CallToolResult;
use serde_json::Value;

/// Turns the end of an operation into the answer of a tool.
///
/// A failure is an answer, too: what is a protocol error is kept from the model, which then cannot act on it. That a
/// command exits with something else than 0 is no failure.
pub fn of(outcome: Result<Value>) -> CallToolResult {
    match outcome {
        Ok(output) => CallToolResult::structured(output),
        Err(error) => refusal(&error),
    }
}

pub fn refusal(error: &Error) -> CallToolResult {
    CallToolResult::structured_error(error.to_json())
}
