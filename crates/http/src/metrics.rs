//! Metrics at `/metrics`, for clients that may scrape them.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use coracle::{Error, Kind};

use coracle_service::Service;
use coracle_service::auth::Identity;
use coracle_service::reply::Refusal;
use coracle_service::telemetry::{self, CONTENT_TYPE};

/// The name a token's scope must contain to read metrics.
pub const SCOPE: &str = "metrics";

pub fn routes() -> Router<Service> {
    Router::new().route("/metrics", get(scrape))
}

/// Returns the metrics. They name no person, but even the amounts are not for every caller.
async fn scrape(
    State(service): State<Service>,
    Extension(identity): Extension<Identity>,
) -> Result<Response, Refusal> {
    check(&identity)?;
    let text = service
        .look(|_| telemetry::metrics().map(|metrics| metrics.text()).ok_or_else(nothing_counted))
        .await?;
    let mut response = Body::from(text).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Admits the home's own people, and tokens whose scope names metrics explicitly: a token for `*` is good for
/// everything of its tenant, and metrics are about all tenants.
fn check(identity: &Identity) -> Result<(), Refusal> {
    let named = identity.scope.patterns().iter().any(|pattern| pattern == SCOPE);
    match identity.caller.tenant.is_none() || named {
        true => identity.may(SCOPE),
        false => Err(Error::new(Kind::Denied, "metrics are about all tenants")
            .hint("make a token with `--allow metrics`")
            .into()),
    }
}

fn nothing_counted() -> Error {
    Error::new(Kind::NotAvailable, "nothing is counted here")
        .hint("ask a daemon that `coracle serve` has started; it always counts")
}
