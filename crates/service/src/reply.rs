//! Answers: a document, or an error in the form every door uses.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use coracle::{Error, Kind, SandboxId};
use serde::Serialize;
use serde_json::Value;

/// A refused request.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    /// Boxed, because most requests are not refused.
    pub error: Box<Error>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub fn new(status: StatusCode, error: Error) -> Self {
        Self { status, error: error.into(), headers: Vec::new() }
    }

    /// Adds a header that tells the client what to do next.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Refuses a path or a query that could not be parsed.
    pub fn unreadable(error: impl std::fmt::Display) -> Self {
        Error::new(Kind::Invalid, format!("the request could not be read: {error}")).into()
    }

    pub fn unknown_route() -> Self {
        let error = Error::new(Kind::NotFound, "there is nothing at this path");
        Self::new(StatusCode::NOT_FOUND, error.hint("`/openapi.json` lists what there is"))
    }

    pub fn wrong_method() -> Self {
        let error = Error::new(Kind::Invalid, "this path does not take this method");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, error.hint("the header `Allow` lists those it takes"))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::new(status(error.kind), error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = document(self.status, &self.error.to_json());
        response.headers_mut().extend(self.headers);
        // For the audit log, and for the layer that redacts errors.
        response.extensions_mut().insert(Failure(Arc::new(*self.error)));
        response
    }
}

/// The error behind a response.
#[derive(Debug, Clone)]
pub struct Failure(pub Arc<Error>);

/// Answers with the result of an operation.
pub fn answer(done: &Value) -> Response {
    about(sandbox_in(done), json(done))
}

/// Returns the sandbox an input or an answer is about.
pub fn sandbox_in(done: &Value) -> Option<SandboxId> {
    done["sandbox_id"].as_str()?.parse().ok()
}

/// Marks a response with its sandbox, for the audit log.
pub fn about(sandbox: Option<SandboxId>, mut response: Response) -> Response {
    if let Some(sandbox) = sandbox {
        response.extensions_mut().insert(sandbox);
    }
    response
}

/// Answers with a document.
pub fn json(value: &impl Serialize) -> Response {
    document(StatusCode::OK, value)
}

fn document(status: StatusCode, value: &impl Serialize) -> Response {
    written(status, serde_json::to_vec(value).unwrap_or_default())
}

/// Answers with a document that is serialized already.
pub fn written(status: StatusCode, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // The answer may change at the next request, and no cache may keep it for other callers.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the status of a kind. Only faults of ours are a 5xx: clients and proxies repeat those by themselves.
pub fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Invalid => StatusCode::BAD_REQUEST,
        Kind::NotFound | Kind::ImageNotFound => StatusCode::NOT_FOUND,
        Kind::Denied | Kind::NotOwner | Kind::ImageNotAllowed | Kind::EgressDenied => StatusCode::FORBIDDEN,
        Kind::StaleEpoch | Kind::LentOut | Kind::Conflict | Kind::Aborted => StatusCode::CONFLICT,
        Kind::LimitExceeded => StatusCode::TOO_MANY_REQUESTS,
        Kind::Unsupported | Kind::StartFailed | Kind::ExecutionFailed => StatusCode::UNPROCESSABLE_ENTITY,
        // A container engine or a guest, which coracle depends on, is gone or did not answer, or not within the deadline.
        // Not 408: some clients repeat that by themselves.
        Kind::NotAvailable | Kind::Timeout => StatusCode::FAILED_DEPENDENCY,
        Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
