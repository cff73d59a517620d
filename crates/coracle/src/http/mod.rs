//! The HTTP door: decodes requests, has the engine carry them out, and writes down what came of it.
//!
//! Every operation has one route (`routes`), described by what `openapi` makes of the operation's own schema. What does
//! not fit one question and one answer has a route of its own: output as it comes (`stream`) and files (`files`).
//!
//! The engine blocks, so each call has a thread of the runtime's; how many there may be is the runtime's to bound.

mod admit;
mod auth;
mod body;
mod call;
mod events;
mod files;
mod guard;
mod health;
mod held;
mod idempotency;
mod limits;
pub mod listen;
pub mod metrics;
mod openapi;
mod query;
mod reply;
mod routes;
mod shares;
mod stream;
mod trace;
mod vigil;

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware;
use axum::response::Response;
use axum::routing::{MethodRouter, get, on};
use bytes::Bytes;
use coracle::RunId;
use coracle::config::Doors;
use coracle_core::{Answers, Ceiling, Clock, Tokens};
use coracle_engine::{Engine, ops};
use tokio_util::sync::CancellationToken;

use crate::telemetry;

pub use self::auth::Identity;
pub use self::call::sandbox_in;
pub use self::listen::Peer;
pub use self::reply::Refusal;
pub use self::shares::Booking;
use self::shares::Share;
use crate::audit::Audit;

/// What all requests share. Cheap to clone.
#[derive(Clone)]
pub struct Door(Arc<Shared>);

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("run", &self.0.run).finish_non_exhaustive()
    }
}

/// What a door is made of.
pub struct Parts {
    pub engine: Engine,
    /// Who acts where a caller of the home's own people names no run.
    pub run: RunId,
    pub tokens: Arc<dyn Tokens>,
    pub answers: Arc<dyn Answers>,
    pub clock: Arc<dyn Clock>,
    pub audit: Audit,
    pub doors: Doors,
    /// What models get that come to `/mcp` and show no token.
    pub ceiling: Ceiling,
}

struct Shared {
    engine: Engine,
    /// Who calls where a caller does not say so.
    run: RunId,
    tokens: Arc<dyn Tokens>,
    clock: Arc<dyn Clock>,
    audit: Audit,
    doors: Doors,
    ceiling: Ceiling,
    keys: idempotency::Keys,
    allowances: limits::Allowances,
    shares: shares::Shares,
    streams: stream::Room,
    /// Cancelled when the daemon is about to end: streams end, and whoever follows comes again.
    closing: CancellationToken,
    /// Written down once, however many read it.
    described: Bytes,
}

impl Door {
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Shared {
            engine: parts.engine,
            run: parts.run,
            tokens: parts.tokens,
            keys: idempotency::Keys::new(parts.answers),
            clock: parts.clock,
            audit: parts.audit,
            doors: parts.doors,
            ceiling: parts.ceiling,
            allowances: limits::Allowances::default(),
            shares: shares::Shares::default(),
            streams: stream::Room::default(),
            closing: CancellationToken::new(),
            described: openapi::document().to_string().into(),
        }))
    }

    /// Returns where requests are noted.
    pub fn audit(&self) -> &Audit {
        &self.0.audit
    }

    /// Returns what a model gets that came with this identity: what its token allows, or the settings.
    pub fn ceiling_of(&self, identity: &Identity) -> coracle::Result<Ceiling> {
        match identity.caller.tenant {
            None => Ok(self.0.ceiling.clone()),
            Some(_) => {
                let policy = self.engine().policy_for(&identity.caller);
                Ceiling::of_model_with_token(identity.bounds.as_deref(), policy)
            }
        }
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    /// Forgets answers that were kept long enough.
    pub fn forget_answers(&self) -> coracle::Result<usize> {
        self.0.keys.forget(&self.0.engine)
    }

    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Returns what is cancelled when the daemon is about to end.
    pub fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// Returns what a caller may have at once.
    pub fn share_of(&self, identity: &Identity) -> Share {
        self.0.shares.of(identity.caller.tenant.as_ref())
    }

    /// Reads a body for whoever does more with it than to have an operation carried out.
    pub async fn body(
        &self,
        identity: &Identity,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(Bytes, shares::Held), Refusal> {
        body::whole(&self.share_of(identity), headers, body).await
    }

    /// Returns the engine as it works for one call: what its answer carries is taken from what the call has booked.
    pub fn engine_for(&self, booking: &Booking) -> Engine {
        let most = self.0.engine.policy().inline_output;
        self.0.engine.answering(booking.inline(most))
    }

    /// Has the engine carry out one call, which has what it has booked until that is done and its answer is written.
    async fn carry_out<T, F>(&self, booking: &Booking, work: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce(&Engine) -> coracle::Result<T> + Send + 'static,
    {
        let (engine, booking) = (self.engine_for(booking), booking.clone());
        let held = move |_: &Engine| {
            let done = work(&engine);
            drop(booking);
            done
        };
        Ok(self.look(held).await?)
    }

    /// Has the engine do something for a caller, whose share it takes from until it is done, even if nobody waits for
    /// it any more.
    async fn ask<T, F>(&self, identity: &Identity, work: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce(&Engine) -> coracle::Result<T> + Send + 'static,
    {
        let place = self.share_of(identity).call()?;
        let held = move |engine: &Engine| {
            let done = work(engine);
            drop(place);
            done
        };
        Ok(self.look(held).await?)
    }

    /// Has the engine look at something, on a thread that may wait.
    async fn look<T, F>(&self, work: F) -> coracle::Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Engine) -> coracle::Result<T> + Send + 'static,
    {
        let engine = self.0.engine.clone();
        match tokio::task::spawn_blocking(telemetry::carried(move || work(&engine))).await {
            Ok(done) => done,
            Err(error) => Err(coracle::Error::internal("the operation ended without an answer", error)),
        }
    }
}

/// Returns what serves one operation.
fn serving(way: call::Way) -> MethodRouter<Door> {
    let method = way.0.filter();
    match way.0.operation {
        // For whoever wants it, this comes as it happens.
        "event_list" => on(method, move |door, who, request| events::serve(way.clone(), door, who, request)),
        _ => on(method, move |door, who, names, request| call::serve(way.clone(), door, who, names, request)),
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
        router = router.route(route.path, serving(way));
    }
    router
        .merge(crate::mcp::http::routes(&door))
        .layer(middleware::from_fn_with_state(door.clone(), admit::admit))
        .layer(middleware::from_fn(trace::follow))
        // Whoever scrapes every few seconds would be most of what is told.
        .merge(metrics::routes().layer(middleware::from_fn_with_state(door.clone(), admit::admit)))
        // Before anybody is asked who they are: whoever looks after the daemon has no token.
        .merge(health::routes())
        .fallback(|| async { Refusal::unknown_route() })
        .method_not_allowed_fallback(|| async { Refusal::wrong_method() })
        // Bodies are bounded where they are read: some are streams.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(door.clone(), admit::watch))
        .with_state(door)
}

async fn describe(State(door): State<Door>) -> Response {
    reply::written(StatusCode::OK, door.0.described.clone())
}
