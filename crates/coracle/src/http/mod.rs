//! The HTTP door: decodes requests, has the engine carry them out, and writes down what came of it.
//!
//! Every operation has one route (`routes`), described by what `openapi` makes of the operation's own schema. What does
//! not fit one question and one answer has a route of its own: output as it comes (`stream`) and files (`files`).
//!
//! The engine blocks, so each call has a thread of the runtime's; how many there may be is the runtime's to bound.

mod auth;
mod body;
mod call;
mod files;
mod health;
pub mod listen;
mod openapi;
mod query;
mod reply;
mod routes;
mod stream;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, on};
use coracle::RunId;
use coracle_engine::{Engine, ops};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use self::auth::Identity;
pub use self::listen::Peer;
pub use self::reply::Refusal;

/// What all requests share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Door(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    engine: Engine,
    /// Who calls where a caller does not say so.
    run: RunId,
    streams: stream::Room,
    /// Cancelled when the daemon is about to end: streams end, and whoever follows comes again.
    closing: CancellationToken,
    described: Value,
}

impl Door {
    /// Makes the door of an engine. `run` is who acts where a caller names no run.
    pub fn new(engine: Engine, run: RunId) -> Self {
        Self(Arc::new(Shared {
            engine,
            run,
            streams: stream::Room::default(),
            closing: CancellationToken::new(),
            described: openapi::document(),
        }))
    }

    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Returns what is cancelled when the daemon is about to end.
    pub fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// Has the engine do something, on a thread that may wait.
    async fn ask<T, F>(&self, work: F) -> coracle::Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Engine) -> coracle::Result<T> + Send + 'static,
    {
        let engine = self.0.engine.clone();
        match tokio::task::spawn_blocking(move || work(&engine)).await {
            Ok(done) => done,
            Err(error) => Err(coracle::Error::internal("the operation ended without an answer", error)),
        }
    }
}

/// Returns everything that is served.
pub fn router(door: Door) -> Router {
    let mut router = Router::new()
        .route("/v1/sandboxes/{sandbox_id}/execs/{exec_id}/stream", get(stream::sse::serve))
        .route("/v1/sandboxes/{sandbox_id}/execs/{exec_id}/attach", get(stream::socket::serve))
        .route("/v1/sandboxes/{sandbox_id}/files", get(files::download).put(files::upload))
        .route("/openapi.json", get(describe));
    for route in routes::ROUTES {
        let described = ops::schema(route.operation).unwrap_or_default();
        let way = (route, Arc::new(described["input"]["properties"].clone()));
        let serve =
            move |door, identity, names, request| call::serve(way.clone(), door, identity, names, request);
        router = router.route(route.path, on(route.filter(), serve));
    }
    router
        .merge(crate::mcp::http::routes(door.engine().clone()))
        .layer(middleware::from_fn_with_state(door.clone(), admit))
        // Before anybody is asked who they are: whoever looks after the daemon has no token.
        .merge(health::routes())
        .fallback(|| async { Refusal::unknown_route() })
        .method_not_allowed_fallback(|| async { Refusal::wrong_method() })
        // Bodies are bounded where they are read: some are streams.
        .layer(DefaultBodyLimit::disable())
        .with_state(door)
}

/// Lets a request in with who it comes from, or turns it away.
async fn admit(State(door): State<Door>, mut request: Request, next: Next) -> Result<Response, Refusal> {
    let identity = auth::identify(&door, &request)?;
    request.extensions_mut().insert(identity);
    Ok(next.run(request).await)
}

async fn describe(State(door): State<Door>) -> Response {
    reply::json(&door.0.described)
}
