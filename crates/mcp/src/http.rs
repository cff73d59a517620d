//! MCP at `/mcp` of the daemon: every request is independent.
//!
//! No revision of the protocol has sessions here that could be lost or stolen. Older clients get a session id all the
//! same, because only the id tells their calls apart when they cancel one.

mod clients;
mod message;
mod session;

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::response::Response;
use axum::routing::any;
use axum::{Extension, Router};
use bytes::Bytes;
use coracle_core::{Ceiling, Error, Result};
use coracle_engine::{Catalogue, ops};
use futures_util::StreamExt;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;

use self::clients::Clients;
use self::message::Message;
use self::session::Session;
use super::calls::Name;
use super::identity::{Asker, Identity};
use super::ids::{self, Restoring};
use super::{Mode, Server, Set, Toolbox};
use coracle_service::listen::{Hearing, Peer};
use coracle_service::{self as service, Deadline, Refusal, Service};

const SESSION: &str = "mcp-session-id";

/// Which tools a client wants, by its URL: `/mcp?mode=compute&with=snapshots,files`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    with: Option<String>,
}

/// Returns the route. Its requests are authenticated already.
pub fn routes<S: Clone + Send + Sync + 'static>(service: &Service) -> Router<S> {
    let (service, clients) = (service.clone(), Arc::new(Clients::default()));
    Router::new().route(
        "/mcp",
        any(move |wanted, identity, request| serve(Desk { service, clients }, wanted, identity, request)),
    )
}

/// What all requests share.
#[derive(Debug, Clone)]
struct Desk {
    service: Service,
    clients: Arc<Clients>,
}

async fn serve(
    desk: Desk,
    wanted: Result<Query<Wanted>, QueryRejection>,
    Extension(mut identity): Extension<service::Identity>,
    request: Request,
) -> Result<Response, Refusal> {
    let Query(wanted) = wanted.map_err(Refusal::unreadable)?;
    // The token may be a person's, but a model has written the request.
    identity.caller = identity.caller.clone().below(desk.service.ceiling_of(&identity)?);
    let toolbox = wanted.toolbox(desk.service.engine().catalogue(), identity.caller.ceiling.as_deref())?;
    // All tokens of a tenant share one bound.
    let tenant = identity.caller.tenant.as_ref().map(|tenant| tenant.as_str());
    let calls = desk.clients.calls_of(tenant.unwrap_or(&identity.who))?;
    let (parts, body) = request.into_parts();
    let presented = session::presented(&parts.headers, &identity.who)?;
    let deadline = Deadline::kept_in(&parts.extensions);
    let booking = desk.service.share_of(&identity).book()?;
    let (mut begun, mut held, mut restoring) = (None, None, None);
    // Over TCP a client that has left looks like one that has closed its sending side; this door stops its
    // command.
    if let (Some(Peer::Tcp(_)), Some(hearing)) =
        (parts.extensions.get::<Peer>(), parts.extensions.get::<Hearing>())
    {
        hearing.be_strict();
    }
    let body = match parts.method == Method::POST {
        false => Body::empty(),
        true => {
            let body = desk.service.body(&identity, &parts.headers, body);
            let (bytes, taken) = deadline.bound(body).await??;
            held = Some(taken);
            let bytes = match ids::held(&bytes) {
                Cow::Borrowed(_) => bytes,
                Cow::Owned(changed) => {
                    restoring = Restoring::of(&bytes, &changed);
                    changed.into()
                }
            };
            match message::look(&bytes) {
                Message::Unreadable(answer) => return Ok(answer),
                Message::TakesBack(request) => {
                    let name =
                        presented.as_ref().map(|session| Name { session: session.to_string(), request });
                    name.iter().for_each(|name| calls.take_back(name));
                }
                Message::Begins => begun = Some(Session::new(&identity.who)?),
                Message::Other => {}
            }
            Body::from(bytes)
        }
    };
    let engine = desk.service.engine_for(&booking);
    let asker = Asker { identity, service: desk.service };
    let server =
        Server::new(engine, Identity::Request(asker), toolbox).counting(calls, presented).until(deadline);
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config());
    let mut response = service.handle(Request::from_parts(parts, body)).await.map(Body::new);
    drop(held);
    if let Some(restoring) = restoring {
        let restored = move |piece: Result<Bytes, _>| piece.map(|piece| Bytes::from(restoring.apply(&piece)));
        response = response.map(|body| Body::from_stream(body.into_data_stream().map(restored)));
    }
    let mut response = booking.carried(response).await;
    if let Some(session) = begun.filter(|_| response.status().is_success()) {
        // Hexadecimal digits are a valid header value.
        let value = HeaderValue::from_str(&session.to_string()).map_err(Refusal::unreadable)?;
        response.headers_mut().insert(HeaderName::from_static(SESSION), value);
    }
    Ok(response)
}

/// The HTTP door has checked host and origin already.
fn config() -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(ops::INPUT_MAX)
        .disable_allowed_hosts()
        .disable_allowed_origins()
}

impl Wanted {
    fn toolbox(&self, catalogue: &Catalogue, ceiling: Option<&Ceiling>) -> Result<Toolbox> {
        let mode = match &self.mode {
            None => Mode::default(),
            Some(name) => <Mode as clap::ValueEnum>::from_str(name, false).map_err(|_| {
                Error::invalid("mode", "is not a mode").hint("use one of: none, compute, code")
            })?,
        };
        let names = self.with.as_deref().unwrap_or_default().split(',').filter(|name| !name.is_empty());
        let sets: Vec<Set> = names.map(str::parse).collect::<Result<_>>()?;
        Ok(Toolbox::of(catalogue, mode, &sets, ceiling))
    }
}
