//! Bodies of requests, each bounded in size, in time, and in the memory all of one tenant's take together.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use coracle::{Error, Kind};
use coracle_engine::ops;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::reply::Refusal;
use super::shares::{Permit, Share};

/// How long a client may take to send a body.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads a body, up to the size of an operation's input. The permit holds its memory until the body was used.
pub async fn whole(share: &Share, headers: &HeaderMap, body: Body) -> Result<(Bytes, Permit), Refusal> {
    // A body without a length may have any.
    let length = said_length(headers).unwrap_or(ops::INPUT_MAX);
    if length > ops::INPUT_MAX {
        return Err(too_large());
    }
    let held = share.body(length)?;
    let read = timeout(PATIENCE, axum::body::to_bytes(body, ops::INPUT_MAX));
    let unread = |_| match said_length(headers) {
        Some(_) => broken_off(),
        None => too_large(),
    };
    Ok((read.await.map_err(|_| too_slow(PATIENCE))?.map_err(unread)?, held))
}

/// Reads a JSON object. An empty body is an empty object.
pub async fn object(
    share: &Share,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Map<String, Value>, Permit), Refusal> {
    let (bytes, held) = whole(share, headers, body).await?;
    if bytes.is_empty() {
        return Ok((Map::new(), held));
    }
    if !is_json(headers) {
        return Err(wrong_type(headers));
    }
    match ops::parse(&bytes)? {
        Value::Object(object) => Ok((object, held)),
        _ => Err(Error::new(Kind::Invalid, "the body is not a JSON object").into()),
    }
}

/// Returns the declared length of a body; a request without a body need not declare one.
fn said_length(headers: &HeaderMap) -> Option<usize> {
    match headers.get(header::CONTENT_LENGTH) {
        Some(length) => length.to_str().ok()?.parse().ok(),
        None if headers.contains_key(header::TRANSFER_ENCODING) => None,
        None => Some(0),
    }
}

/// A foreign page's forms can send text and forms, but the browser sends JSON only after a CORS preflight.
fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

fn wrong_type(headers: &HeaderMap) -> Refusal {
    let message = match headers.get(header::CONTENT_TYPE) {
        None => "the request has no `Content-Type: application/json`".to_owned(),
        Some(other) => {
            let shown: String = String::from_utf8_lossy(other.as_bytes()).chars().take(64).collect();
            format!("the `Content-Type` of the request is `{shown}` and not `application/json`")
        }
    };
    Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Error::new(Kind::Invalid, message))
}

fn too_large() -> Refusal {
    let error = Error::new(
        Kind::Invalid,
        format!("the body could not be read, or has more than {} bytes", ops::INPUT_MAX),
    );
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error.hint("files of any size go to `…/files`"))
}

/// Refuses a body that did not come in time.
pub fn too_slow(patience: Duration) -> Refusal {
    let error = Error::new(Kind::Invalid, format!("the body did not come within {} s", patience.as_secs()));
    Refusal::new(StatusCode::REQUEST_TIMEOUT, error)
}

/// Refuses a body that ended before its length was reached.
pub fn broken_off() -> Refusal {
    Error::new(Kind::Invalid, "the body broke off").hint("send the whole of it").into()
}
