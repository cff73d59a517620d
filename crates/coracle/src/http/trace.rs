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

/// What a token has to name to be shown what was counted.
pub const SCOPE: &str = "metrics";

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
    check(&identity)?;
    let text =
        door.look(|_| telemetry::metrics().map(|metrics| metrics.text()).ok_or_else(nothing_counted)).await?;
    let mut response = Body::from(text).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Lets in the home's own people, and tokens that name this very thing: one that is good for everything is good for
/// everything of its tenant's, and what is counted is about all of them.
fn check(identity: &Identity) -> Result<(), Refusal> {
    let named = identity.scope.patterns().iter().any(|pattern| pattern == SCOPE);
    match identity.caller.tenant.is_none() || named {
        true => identity.may(SCOPE),
        false => Err(Error::new(Kind::Denied, "what is counted is about all tenants")
            .hint("make a token with `--allow metrics`")
            .into()),
    }
}

fn nothing_counted() -> Error {
    Error::new(Kind::NotAvailable, "nothing is counted here")
}
