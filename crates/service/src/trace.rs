//! Makes a span for each request, as a child of the one that `traceparent` names.

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

use crate::telemetry::{Came, doors};

/// Answers a request in a span of its own.
pub async fn follow(mut request: Request, next: Next) -> Response {
    let traceparent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let route = request.extensions().get::<MatchedPath>().map_or("_OTHER", MatchedPath::as_str);
    let span = doors::request(request.method().as_str(), route, traceparent);
    request.extensions_mut().insert(Came(span.clone()));
    let response = next.run(request).instrument(span.clone()).await;
    doors::answered(&span, response.status().as_u16());
    response
}
