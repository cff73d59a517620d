//! What is told of requests: a span for each, the child of what `traceparent` names, and everything counted at `/metrics`.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use coracle::{Error, Kind};
use tracing::Instrument;

use super::Door;
use super::auth::Identity;
use super::reply::Refusal;
use crate::telemetry::{self, CONTENT_TYPE, Came, doors};

/// Answers a request in a span of its own.
pub async fn follow(mut request: Request, next: Next) -> Response {
    let traceparent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let span = doors::request(request.method().as_str(), traceparent);
    request.extensions_mut().insert(Came(span.clone()));
    let response = next.run(request).instrument(span.clone()).await;
    doors::answered(&span, response.status().as_u16());
    response
}

pub fn routes() -> Router<Door> {
    Router::new().route("/metrics", get(scrape))
}

/// Returns what was counted. It says nothing of who, but how much is not everybody's to know either.
async fn scrape(
    State(door): State<Door>,
    Extension(identity): Extension<Identity>,
) -> Result<Response, Refusal> {
    identity.may("metrics")?;
    if identity.caller.tenant.is_some() {
        return Err(Error::new(Kind::Denied, "what is counted is about all tenants").into());
    }
    let text =
        door.ask(|_| telemetry::metrics().map(|metrics| metrics.text()).ok_or_else(nothing_counted)).await?;
    let mut response = Body::from(text).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn nothing_counted() -> Error {
    Error::new(Kind::NotAvailable, "nothing is counted here")
}
