//! What is answered: a document, or an error in the words every door uses.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use coracle::{Error, Kind, SandboxId};
use serde::Serialize;
use serde_json::Value;

/// A request that was not carried out.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    /// In a box, because most requests are not turned away.
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

    /// Turns away what could not be read from a path or a query.
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
        // For whoever notes what came of it, and decides how much of it a stranger is told.
        response.extensions_mut().insert(Failure(Arc::new(*self.error)));
        response
    }
}

/// Why a response is none that was hoped for.
#[derive(Debug, Clone)]
pub struct Failure(pub Arc<Error>);

/// Answers with what an operation returned.
pub fn answer(done: &Value) -> Response {
    about(sandbox_in(done), json(done))
}

/// Returns the sandbox an input or an answer is about.
pub fn sandbox_in(done: &Value) -> Option<SandboxId> {
    done["sandbox_id"].as_str()?.parse().ok()
}

/// Says which sandbox a response is about, for the audit log.
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

/// Answers with a document that is text already.
pub fn written(status: StatusCode, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // What is asked again may have changed, and is nobody else's to keep.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the status of a kind. None but a fault of ours is a 5xx: clients and proxies repeat those by themselves.
pub fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Invalid => StatusCode::BAD_REQUEST,
        Kind::NotFound | Kind::ImageNotFound => StatusCode::NOT_FOUND,
        Kind::Denied | Kind::NotOwner | Kind::ImageNotAllowed | Kind::EgressDenied => StatusCode::FORBIDDEN,
        Kind::StaleEpoch | Kind::LentOut | Kind::Conflict | Kind::Aborted => StatusCode::CONFLICT,
        Kind::LimitExceeded => StatusCode::TOO_MANY_REQUESTS,
        Kind::Unsupported | Kind::StartFailed | Kind::ExecutionFailed => StatusCode::UNPROCESSABLE_ENTITY,
        // Something coracle depends on, an engine or a guest, is not there or did not answer.
        Kind::NotAvailable | Kind::Timeout => StatusCode::FAILED_DEPENDENCY,
        Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
