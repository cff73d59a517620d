//! What was counted, at `/metrics`, for whoever was told to scrape.

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

/// What a token has to name to be shown what was counted.
pub const SCOPE: &str = "metrics";

pub fn routes() -> Router<Service> {
    Router::new().route("/metrics", get(scrape))
}

/// Returns what was counted. It says nothing of who, but how much is not everybody's to know either.
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
        .hint("ask a daemon that `coracle serve` has started; it always counts")
}
