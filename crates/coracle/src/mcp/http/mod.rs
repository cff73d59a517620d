//! MCP at `/mcp`, for clients that find the daemon: every request stands for itself.
//!
//! No revision of the protocol has sessions here that could be lost or stolen. Older clients are given a session id all
//! the same, because only by that their calls can be told apart when they take one back.

mod clients;
mod message;
mod session;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query, Request};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Extension, Router};
use coracle_core::{Error, Kind, Result};
use coracle_engine::{Engine, ops};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;

use self::clients::Clients;
use self::message::Message;
use self::session::Session;
use super::calls::Name;
use super::identity::Identity;
use super::{Mode, Server, Set, Toolbox};
use crate::http;
use crate::http::Refusal;

const SESSION: &str = "mcp-session-id";

/// Which tools a client wants, as its URL says: `/mcp?mode=compute&with=snapshots,files`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    with: Option<String>,
}

/// Returns the route. Whoever comes by it has been let in already.
pub fn routes<S: Clone + Send + Sync + 'static>(engine: Engine) -> Router<S> {
    let clients = Arc::new(Clients::default());
    let serve = move |wanted, identity, request| serve(engine, clients, wanted, identity, request);
    Router::new().route("/mcp", any(serve))
}

async fn serve(
    engine: Engine,
    clients: Arc<Clients>,
    Query(wanted): Query<Wanted>,
    Extension(identity): Extension<http::Identity>,
    request: Request,
) -> Result<Response, Refusal> {
    let toolbox = wanted.toolbox()?;
    let calls = clients.calls_of(&identity.who)?;
    let (parts, body) = request.into_parts();
    let presented = match session::presented(&parts.headers, &identity.who) {
        Ok(session) => session,
        Err(error) => return Err(Refusal::new(StatusCode::NOT_FOUND, error)),
    };
    let mut begun = None;
    let body = match parts.method == Method::POST {
        false => Body::empty(),
        true => {
            let bytes = axum::body::to_bytes(body, ops::INPUT_MAX).await.map_err(|_| too_large())?;
            match message::look(&bytes) {
                Message::Unreadable(answer) => return Ok(answer),
                Message::TakesBack(request) => {
                    if let Some(session) = &presented {
                        calls.take_back(&Name { session: session.to_string(), request });
                    }
                }
                Message::Begins => begun = Some(Session::new(&identity.who)?),
                Message::Other => {}
            }
            Body::from(bytes)
        }
    };
    let server = Server::new(engine, Identity::Request(identity), toolbox).counting(calls, presented);
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config(&parts.headers),
    );
    let mut response = service.handle(Request::from_parts(parts, body)).await.map(Body::new);
    if let Some(session) = begun.filter(|_| response.status().is_success()) {
        // Hexadecimal digits are a header.
        let value = HeaderValue::from_str(&session.to_string()).map_err(Refusal::unreadable)?;
        response.headers_mut().insert(HeaderName::from_static(SESSION), value);
    }
    Ok(response.into_response())
}

fn config(headers: &HeaderMap) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(ops::INPUT_MAX)
        .with_allowed_origins(same_origin(headers))
        .enforce_origin_validation()
}

/// Pages may only come from where they ask; whether that is us is seen by the host.
fn same_origin(headers: &HeaderMap) -> Vec<String> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match host.parse::<Authority>() {
        Ok(host) if host.port().is_some() => vec![format!("http://{host}"), format!("https://{host}")],
        Ok(host) => vec![format!("http://{host}:80"), format!("https://{host}:443")],
        Err(_) => Vec::new(),
    }
}

impl Wanted {
    fn toolbox(&self) -> Result<Toolbox> {
        let mode = match &self.mode {
            None => Mode::default(),
            Some(name) => <Mode as clap::ValueEnum>::from_str(name, false).map_err(|_| {
                Error::invalid("mode", "is none of the modes").hint("use one of: none, compute, code")
            })?,
        };
        let names = self.with.as_deref().unwrap_or_default().split(',').filter(|name| !name.is_empty());
        let sets: Vec<Set> = names.map(str::parse).collect::<Result<_>>()?;
        Ok(Toolbox::of(mode, &sets))
    }
}

fn too_large() -> Refusal {
    let error = Error::new(
        Kind::Invalid,
        format!("the message could not be read, or has more than {} bytes", ops::INPUT_MAX),
    );
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error)
}
