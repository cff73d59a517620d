//! Bodies of requests, each with a bound.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use coracle::{Error, Kind};
use coracle_engine::ops;
use serde_json::{Map, Value};

use super::reply::Refusal;

/// Reads a JSON object. Nothing at all is an empty one.
pub async fn object(headers: &HeaderMap, body: Body) -> Result<Map<String, Value>, Refusal> {
    let bytes = axum::body::to_bytes(body, ops::INPUT_MAX).await.map_err(|_| too_large())?;
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    if !is_json(headers) {
        return Err(wrong_type());
    }
    match ops::parse(&bytes)? {
        Value::Object(object) => Ok(object),
        _ => Err(Error::new(Kind::Invalid, "the body is not a JSON object").into()),
    }
}

/// Forms of foreign pages can send text and forms, but no JSON without being asked first.
fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

fn wrong_type() -> Refusal {
    let error = Error::new(Kind::Invalid, "the body is not said to be JSON");
    let error = error.hint("send it with `Content-Type: application/json`");
    Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error)
}

fn too_large() -> Refusal {
    let error = Error::new(
        Kind::Invalid,
        format!("the body could not be read, or has more than {} bytes", ops::INPUT_MAX),
    );
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error.hint("files of any size go to `…/files`"))
}
