//! Whether the daemon lives, and whether it is ready.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use coracle::{Error, Kind};
use serde_json::json;

use coracle_service::Service;
use coracle_service::reply::{self, Refusal};

pub fn routes() -> Router<Service> {
    Router::new()
        .route("/healthz", get(|| async { reply::json(&json!({"status": "ok"})) }))
        .route("/readyz", get(ready))
}

/// The daemon is ready if it can reach its store and is not about to end.
async fn ready(State(service): State<Service>) -> Response {
    if service.closing().is_cancelled() {
        return not_ready(Error::new(Kind::NotAvailable, "the daemon is about to end"));
    }
    match service.look(|engine| engine.records().check_store()).await {
        Ok(()) => reply::json(&json!({"status": "ready"})),
        // Unauthenticated clients must not learn what exactly is wrong.
        Err(_) => not_ready(Error::new(Kind::NotAvailable, "the store does not answer")),
    }
}

fn not_ready(error: Error) -> Response {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error).into_response()
}
