//! Examines a message before it is passed on: is it valid, does it begin a session, does it cancel a call?

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use coracle_engine::ops;
use rmcp::ErrorData;
use rmcp::model::{RequestId, ServerJsonRpcMessage};

/// What a message is, as far as the door needs to know.
#[derive(Debug)]
pub enum Message {
    /// It is invalid; this is the answer.
    Unreadable(Response),
    /// The `initialize` of an older client.
    Begins,
    /// A client cancels this request.
    TakesBack(RequestId),
    Other,
}

/// Examines a message. Refuses a duplicate key: the next parser might take the other value.
pub fn look(bytes: &[u8]) -> Message {
    let message = match ops::parse(bytes) {
        Ok(message) => message,
        Err(error) => return Message::Unreadable(refusal(ErrorData::parse_error(error.chain(), None))),
    };
    match message["method"].as_str() {
        Some("initialize") => Message::Begins,
        Some("notifications/cancelled") => {
            match serde_json::from_value(message["params"]["requestId"].clone()) {
                Ok(request) => Message::TakesBack(request),
                Err(_) => Message::Other,
            }
        }
        Some(_) | None => Message::Other,
    }
}

fn refusal(error: ErrorData) -> Response {
    let text = serde_json::to_vec(&ServerJsonRpcMessage::error(error, None)).unwrap_or_default();
    let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    (StatusCode::BAD_REQUEST, [json], text).into_response()
}
