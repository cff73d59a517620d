//! What the doors of a daemon share: authentication, each tenant's share, idempotency keys, listeners, the audit log
//! and metrics.
//!
//! Nothing here knows an operation's path or the MCP protocol: those are the doors'. The engine blocks, so each call
//! has a thread of the runtime, which bounds their number.

pub mod admit;
pub mod audit;
pub mod auth;
pub mod body;
pub mod deadline;
mod ending;
mod guard;
mod held_bytes;
pub mod idempotency;
mod limits;
pub mod listen;
mod panics;
pub mod reply;
pub mod shares;
mod stream_places;
pub mod telemetry;
mod token_recheck;
mod trace;
mod warning;

use std::fmt;
use std::sync::Arc;

pub use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::HeaderMap;
use axum::middleware;
use bytes::Bytes;
use coracle::RunId;
use coracle::config::Doors;
use coracle_core::{Answers, Ceiling, Clock, TenantId, Tokens};
use coracle_engine::Engine;
use tokio_util::sync::CancellationToken;

use self::audit::Audit;
pub use self::auth::Identity;
pub use self::deadline::Deadline;
pub use self::ending::Ending;
pub use self::listen::Peer;
pub use self::reply::Refusal;
pub use self::shares::Booking;
use self::shares::Share;
pub use self::stream_places::{Seat, StreamPlaces};
pub use self::token_recheck::TokenRecheck;

/// What all requests share. Cheap to clone.
#[derive(Clone)]
pub struct Service(Arc<Shared>);

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("run", &self.0.run).finish_non_exhaustive()
    }
}

/// The parts of a service.
pub struct Parts {
    pub engine: Engine,
    /// The run of a caller of the home's own people that names none.
    pub run: RunId,
    pub tokens: Arc<dyn Tokens>,
    pub answers: Arc<dyn Answers>,
    pub clock: Arc<dyn Clock>,
    pub audit: Audit,
    pub doors: Doors,
    /// What models without a token get at `/mcp`.
    pub ceiling: Ceiling,
    /// Returns the operation a request is for, by the paths of the HTTP door.
    pub operation_of: fn(&Request) -> Option<&'static str>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("run", &self.run).finish_non_exhaustive()
    }
}

struct Shared {
    engine: Engine,
    /// The run of a caller that names none.
    run: RunId,
    tokens: Arc<dyn Tokens>,
    clock: Arc<dyn Clock>,
    audit: Audit,
    doors: Doors,
    ceiling: Ceiling,
    keys: idempotency::Keys,
    allowances: limits::Allowances,
    shares: shares::Shares,
    streams: StreamPlaces,
    /// Cancelled when the daemon is about to end: streams end, and their clients reconnect.
    closing: CancellationToken,
    ending: Ending,
    operation_of: fn(&Request) -> Option<&'static str>,
}

impl Service {
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
            streams: StreamPlaces::default(),
            closing: CancellationToken::new(),
            ending: Ending::default(),
            operation_of: parts.operation_of,
        }))
    }

    /// Returns the audit log.
    pub fn audit(&self) -> &Audit {
        &self.0.audit
    }

    /// Returns the ceiling of a model with this identity: from its token, or from the settings.
    pub fn ceiling_of(&self, identity: &Identity) -> coracle::Result<Ceiling> {
        match identity.caller.tenant {
            None => Ok(self.0.ceiling.clone()),
            Some(_) => {
                let policy = self.engine().access().policy_for(&identity.caller);
                Ceiling::of_model_with_token(identity.bounds.as_deref(), policy)
            }
        }
    }

    /// Returns the places for streams.
    pub fn streams(&self) -> &StreamPlaces {
        &self.0.streams
    }

    /// Returns the idempotency keys.
    pub fn keys(&self) -> &idempotency::Keys {
        &self.0.keys
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    /// Forgets answers that are past their retention.
    pub fn forget_answers(&self) -> coracle::Result<usize> {
        self.0.keys.forget(&self.0.engine)
    }

    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Returns the token that is cancelled when the daemon is about to end.
    pub fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// Returns the calls that end with the daemon.
    pub fn ending(&self) -> &Ending {
        &self.0.ending
    }

    /// Returns the share of a caller's tenant.
    pub fn share_of(&self, identity: &Identity) -> Share {
        self.share_of_tenant(identity.caller.tenant.as_ref())
    }

    /// Returns the share of a tenant, or of the home's own people.
    pub fn share_of_tenant(&self, tenant: Option<&TenantId>) -> Share {
        self.0.shares.of(tenant)
    }

    /// Reads a body for a route that does more with it than pass it to an operation.
    pub async fn body(
        &self,
        identity: &Identity,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(Bytes, shares::Permit), Refusal> {
        body::whole(&self.share_of(identity), headers, body).await
    }

    /// Returns the engine for one call: the answer's memory is taken from the call's booking.
    pub fn engine_for(&self, booking: &Booking) -> Engine {
        let most = self.0.engine.policy().inline_output;
        self.0.engine.answering(booking.inline(most))
    }

    /// Has the engine carry out one call, which keeps its booking until its answer is written.
    pub async fn carry_out<T, F>(&self, booking: &Booking, work: F) -> Result<T, Refusal>
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

    /// Has the engine do something for a caller. It takes from the caller's share until it is done, even if the
    /// client no longer waits.
    pub async fn ask<T, F>(&self, identity: &Identity, work: F) -> Result<T, Refusal>
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

    /// Has the engine look something up, on a thread that may block.
    pub async fn look<T, F>(&self, work: F) -> coracle::Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Engine) -> coracle::Result<T> + Send + 'static,
    {
        let engine = self.0.engine.clone();
        match tokio::task::spawn_blocking(telemetry::carried(move || work(&engine))).await {
            Ok(done) => done,
            // The message of a panic may quote anything, so it only goes to standard error.
            Err(_) => Err(panics::fault()),
        }
    }
}

/// The routes of a daemon, by who may use them.
#[derive(Debug, Default)]
pub struct Routes {
    /// For authenticated callers, traced.
    pub calls: Router<Service>,
    /// The same, untraced: scraped every few seconds, they would be most of the traces.
    pub scraped: Router<Service>,
    /// For everyone: health checks have no token.
    pub open: Router<Service>,
}

/// Returns all routes, behind the layers every request passes.
pub fn router(service: Service, routes: Routes) -> Router {
    let admitted = || middleware::from_fn_with_state(service.clone(), admit::admit);
    routes
        .calls
        .layer(admitted())
        .layer(middleware::from_fn(trace::follow))
        .merge(routes.scraped.layer(admitted()))
        .merge(routes.open)
        .fallback(|| async { Refusal::unknown_route() })
        .method_not_allowed_fallback(|| async { Refusal::wrong_method() })
        // Bodies are bounded where they are read: some are streams.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn(panics::contain))
        .layer(middleware::from_fn_with_state(service.clone(), admit::watch))
        .with_state(service)
}
