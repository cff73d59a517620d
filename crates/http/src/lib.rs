//! The HTTP door: decodes requests, has the engine carry them out, and encodes the results.
//!
//! Every operation has one route (`routes`), which `openapi` describes from the operation's own schema. What does not
//! fit one request and one answer has a route of its own: live output (`stream`), files (`files`) and git (`git`).

mod call;
mod events;
mod files;
pub mod git;
mod health;
pub mod metrics;
mod openapi;
mod query;
mod routes;
mod stream;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{MethodRouter, delete, get, on, post};
use bytes::Bytes;
use coracle_engine::Engine;
use coracle_service::{Routes, Service, reply};

pub use self::routes::operation_of;

/// Returns the handler of one operation.
fn serving(way: call::Way) -> MethodRouter<Service> {
    let method = way.0.filter();
    match way.0.operation {
        // Clients may also get this as a stream.
        "event_list" => {
            on(method, move |service, who, request| events::serve(way.clone(), service, who, request))
        }
        _ => on(method, move |service, who, names, request| {
            call::serve(way.clone(), service, who, names, request)
        }),
    }
}

/// Returns the routes of this door.
pub fn routes(engine: &Engine) -> Routes {
    let catalogue = engine.catalogue();
    // Serialized once, however many clients read it.
    let described: Bytes = openapi::document(catalogue).to_string().into();
    let mut calls = Router::new()
        .route("/v1/sandboxes/{sandbox_id}/execs/{exec_id}/stream", get(stream::sse::serve))
        .route("/v1/sandboxes/{sandbox_id}/execs/{exec_id}/attach", get(stream::socket::serve))
        .route("/v1/sandboxes/{sandbox_id}/files", get(files::download).put(files::upload))
        .route("/git/{repo}/info/refs", get(git::advertise))
        .route("/git/{repo}/git-upload-pack", post(git::fetch))
        .route("/git/{repo}/git-receive-pack", post(git::push))
        .route("/v1/requests/{key}", delete(call::cancel))
        .route("/openapi.json", get(move || async move { reply::written(StatusCode::OK, described) }));
    for route in routes::ROUTES {
        let way = (route, Arc::new(route.schemas(catalogue)["input"]["properties"].clone()));
        calls = calls.route(route.path, serving(way));
    }
    Routes { calls, scraped: metrics::routes(), open: health::routes() }
}
