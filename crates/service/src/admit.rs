//! What every request passes: the guard, authentication, the rate limit, and the audit log.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::RequestExt;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use coracle_core::SandboxId;

use super::auth::{self, Identity};
use super::deadline::{Began, Deadline};
use super::listen::Admission;
use super::reply::{Failure, Refusal};
use super::{Peer, Service, guard};
use crate::audit::{End, Entry};

const REQUEST_ID: HeaderName = HeaderName::from_static("coracle-request");

/// The id of a request, in the answer and in the audit log.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

/// Who sends a request, and which operation it is for.
#[derive(Debug)]
struct Recognised {
    identity: Identity,
    operation: Option<&'static str>,
}

/// Receives that as soon as it is known, for the audit line: a client may disconnect at any time.
#[derive(Debug, Clone, Default)]
struct Register(Arc<OnceLock<Recognised>>);

/// The outermost layer: refuses requests that are not for this daemon, gives each an id, and logs its outcome.
pub async fn watch(State(service): State<Service>, mut request: Request, next: Next) -> Response {
    let mut line = Line {
        service,
        began: Instant::now(),
        request: request_id(),
        register: Register::default(),
        sandbox: sandbox_in(&mut request).await,
        from: request.extensions().get().and_then(Peer::address),
        awaited: is_noted(request.uri().path()),
    };
    request.extensions_mut().insert(RequestId(line.request.clone()));
    request.extensions_mut().insert(Began(line.began));
    request.extensions_mut().insert(line.register.clone());
    let mut response = match guard::check(&line.service.0.doors, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    line.awaited |= response.status().is_client_error();
    if let Ok(id) = HeaderValue::from_str(&line.request) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    line.conclude(&response);
    response
}

/// Authenticates a request and admits it, or refuses it.
pub async fn admit(State(service): State<Service>, mut request: Request, next: Next) -> Response {
    let identity = match recognise(&service, auth::Shows::read(&request)).await {
        Ok(identity) => identity,
        Err(refusal) if auth::is_git(&request) => return auth::asking_for_password(refusal).into_response(),
        Err(refusal) => return refusal.into_response(),
    };
    if let Some(admission) = request.extensions_mut().remove::<Admission>() {
        admission.decide();
    }
    if let Some(register) = request.extensions_mut().remove::<Register>() {
        let recognised =
            Recognised { identity: identity.clone(), operation: (service.0.operation_of)(&request) };
        // Nothing else writes there.
        let _ = register.0.set(recognised);
    }
    match within_rate(&service, &identity).and_then(|()| Deadline::read(&request)) {
        Err(refusal) => refusal.into_response(),
        Ok(deadline) => {
            request.extensions_mut().insert(deadline);
            request.extensions_mut().insert(identity.clone());
            redacted(&identity, next.run(request).await)
        }
    }
}

async fn recognise(service: &Service, shows: Result<auth::Shows, Refusal>) -> Result<Identity, Refusal> {
    auth::identify(service, shows?).await
}

fn within_rate(service: &Service, identity: &Identity) -> Result<(), Refusal> {
    let caller = &identity.caller;
    match (&caller.tenant, service.engine().access().rate_for(caller)) {
        (Some(tenant), Some(rate)) => service.0.allowances.take(tenant, rate, Instant::now()),
        _ => Ok(()),
    }
}

/// Returns a response with the error as its caller may see it.
fn redacted(identity: &Identity, response: Response) -> Response {
    let failure = response.extensions().get::<Failure>();
    let Some(instead) = failure.and_then(|failure| identity.told_instead(&failure.0)) else {
        return response;
    };
    let mut shown = Refusal::new(response.status(), instead).into_response();
    for (name, value) in response.headers() {
        shown.headers_mut().entry(name).or_insert(value.clone());
    }
    shown
}

/// The line of a request in the audit log. If it is dropped before the outcome is known, the client has disconnected;
/// its request may still be carried out.
struct Line {
    service: Service,
    began: Instant,
    request: String,
    register: Register,
    sandbox: Option<SandboxId>,
    from: Option<IpAddr>,
    /// The line is not written yet.
    awaited: bool,
}

impl Line {
    fn conclude(mut self, response: &Response) {
        let failure = response.extensions().get::<Failure>();
        let end = failure.map_or(End::Answered, |failure| End::Failed(failure.0.kind));
        self.sandbox = self.sandbox.take().or_else(|| response.extensions().get::<SandboxId>().cloned());
        self.write(end, Some(response.status().as_u16()));
    }

    fn write(&mut self, end: End, status: Option<u16>) {
        if !std::mem::take(&mut self.awaited) {
            return;
        }
        let recognised = self.register.0.get();
        self.service.audit().note(
            &*self.service.0.clock,
            &Entry {
                door: "http",
                who: recognised.map(|known| known.identity.who.as_str()),
                tenant: recognised.and_then(|known| known.identity.caller.tenant.as_ref()),
                operation: recognised.and_then(|known| known.operation),
                sandbox: self.sandbox.as_ref(),
                end,
                status,
                took: self.began.elapsed(),
                request: &self.request,
                from: self.from,
            },
        );
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.write(End::Abandoned, None);
    }
}

/// Tells whether requests to a path are logged here. Health checks come every few seconds and change nothing. The MCP
/// door logs its own requests, unless they were refused here.
fn is_noted(path: &str) -> bool {
    !matches!(path, "/healthz" | "/readyz" | "/metrics" | "/mcp")
}

/// Returns the sandbox that a path names, parsed as the route will parse it.
async fn sandbox_in(request: &mut Request) -> Option<SandboxId> {
    let names = request.extract_parts::<RawPathParams>().await.ok()?;
    names.iter().find(|(name, _)| *name == "sandbox_id").and_then(|(_, value)| value.parse().ok())
}

/// Generates a request id; an empty one if there is no randomness, which does no harm.
fn request_id() -> String {
    let mut random = [0; 10];
    let drawn = getrandom::fill(&mut random);
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    if drawn.is_ok() { format!("req_{digits}") } else { "req_unnamed".to_owned() }
}
