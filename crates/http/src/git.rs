//! Git's smart protocol, versions 0 to 2: clients of git clone from and push to hosted repositories.
//!
//! Bodies are streamed both ways. Git asks for a password, and the token is one, whatever the name.

mod gzip;
mod pipes;

use std::io;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use coracle::{Error, Kind, Result};
use coracle_core::Cancel;
use coracle_core::cancel::CancelOnDrop;
use coracle_core::repo::{Phase, Protocol, Service as GitService};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use tracing::Instrument;

use coracle_service::auth::Identity;
use coracle_service::reply::Refusal;
use coracle_service::{Deadline, Service};

use self::pipes::Pipes;

/// The scope of tokens that may clone and fetch.
pub const FETCH_SCOPE: &str = "repo_fetch";
/// The scope of tokens that may push.
pub const PUSH_SCOPE: &str = "repo_push";

/// The query of the first request.
#[derive(Debug, Deserialize)]
pub struct Asked {
    service: Option<String>,
}

type PathOf = Result<Path<String>, axum::extract::rejection::PathRejection>;
type QueryOf<T> = Result<Query<T>, axum::extract::rejection::QueryRejection>;

/// Lists refs, or what we can do.
pub async fn advertise(
    State(service): State<Service>,
    Extension(identity): Extension<Identity>,
    repo: PathOf,
    asked: QueryOf<Asked>,
    request: Request,
) -> Result<Response, Refusal> {
    let Query(Asked { service: name }) = asked.map_err(Refusal::unreadable)?;
    let wanted = name.as_deref().and_then(GitService::of).ok_or_else(only_smart)?;
    let protocol = protocol(request.headers())?;
    // Version 2 says at once what it can do; the others say first which service this is.
    let preface = match (wanted, protocol) {
        (GitService::UploadPack, Protocol::V2) => Bytes::new(),
        (_, _) => preface(wanted),
    };
    let order = Order { repo: named(repo)?, service: wanted, protocol, phase: Phase::Advertisement };
    answer(service, identity, order, request, preface).await
}

/// Serves a fetch.
pub async fn fetch(
    State(service): State<Service>,
    Extension(identity): Extension<Identity>,
    repo: PathOf,
    request: Request,
) -> Result<Response, Refusal> {
    rpc(service, identity, repo, request, GitService::UploadPack).await
}

/// Serves a push.
pub async fn push(
    State(service): State<Service>,
    Extension(identity): Extension<Identity>,
    repo: PathOf,
    request: Request,
) -> Result<Response, Refusal> {
    rpc(service, identity, repo, request, GitService::ReceivePack).await
}

/// Returns the name a token's scope has for a service.
pub fn scope_of(service: GitService) -> &'static str {
    match service {
        GitService::UploadPack => FETCH_SCOPE,
        GitService::ReceivePack => PUSH_SCOPE,
    }
}

/// What a client wants of which repository.
struct Order {
    repo: String,
    service: GitService,
    protocol: Protocol,
    phase: Phase,
}

async fn rpc(
    service: Service,
    identity: Identity,
    repo: PathOf,
    request: Request,
    wanted: GitService,
) -> Result<Response, Refusal> {
    let expected = format!("application/x-{}-request", wanted.as_str());
    let typed = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if typed != Some(&expected) {
        let error =
            Error::new(Kind::Invalid, format!("the `Content-Type` of the request is not `{expected}`"));
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
    }
    let protocol = protocol(request.headers())?;
    let order = Order { repo: named(repo)?, service: wanted, protocol, phase: Phase::Request };
    answer(service, identity, order, request, Bytes::new()).await
}

/// Has a request served, and streams what comes back after `preface`.
async fn answer(
    service: Service,
    identity: Identity,
    order: Order,
    request: Request,
    preface: Bytes,
) -> Result<Response, Refusal> {
    identity.may(scope_of(order.service))?;
    let kind = match order.phase {
        Phase::Advertisement => "advertisement",
        Phase::Whole | Phase::Request => "result",
    };
    let content_type = format!("application/x-{}-{kind}", order.service.as_str());
    let deadline = Deadline::kept_in(request.extensions());
    let gzipped = gzip::is_used(request.headers())?;
    let (pipes, theirs) = Pipes::new().map_err(no_pipes)?;
    let Pipes { input, output } = pipes;
    let cancel = Cancel::default();
    let (places, serving, ends) = (service.streams().clone(), cancel.clone(), CancelOnDrop::of(&cancel));
    let work = async move {
        let caller = identity.caller.clone();
        let work = move |engine: &coracle_engine::Engine| {
            let repositories = engine.repositories();
            let repo = repositories.find(&caller, &order.repo)?;
            let _seat = places.take(repo.id.as_str(), caller.tenant.as_ref())?;
            let serving_of = (order.service, order.protocol, order.phase);
            repositories.serve(&repo, serving_of, theirs.input, theirs.output, &serving)
        };
        service.ask(&identity, work).await
    };
    let served = tokio::spawn(work.in_current_span());
    let fed = tokio::spawn(pipes::feed(request.into_body().into_data_stream(), input, gzipped));
    let mut output = pipes::Output::new(output, deadline);
    let first = output.next().await?;
    if first.is_none() {
        // Nothing came: the end says why.
        let ended = served.await.map_err(|_| fault())?;
        fed.abort();
        ends.disarm();
        ended?;
        return Ok(reply(&content_type, Body::from(preface)));
    }
    let head = [Some(preface), first].into_iter().flatten().filter(|piece| !piece.is_empty());
    let state = (output, served, ends);
    let rest = stream::try_unfold(Some(state), |state| async move {
        let Some((mut output, served, ends)) = state else { return Ok(None) };
        match output.next().await.map_err(|error| io::Error::other(error.chain()))? {
            Some(piece) => Ok(Some((piece, Some((output, served, ends))))),
            None => {
                // Git's protocol tells a client by itself whether it has all. Cutting the connection off instead could cost it
                // the words of a refusal that were sent just before.
                let _ = served.await;
                ends.disarm();
                Ok(None)
            }
        }
    });
    let head = stream::iter(head.map(Ok::<_, io::Error>).collect::<Vec<_>>());
    Ok(reply(&content_type, Body::from_stream(head.chain(rest))))
}

fn reply(content_type: &str, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(content_type) {
        headers.insert(header::CONTENT_TYPE, value);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0, must-revalidate"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns the repository a path names; `.git` may stand behind it.
fn named(repo: PathOf) -> Result<String, Refusal> {
    let Path(repo) = repo.map_err(Refusal::unreadable)?;
    Ok(repo.strip_suffix(".git").map(str::to_owned).unwrap_or(repo))
}

fn protocol(headers: &HeaderMap) -> Result<Protocol, Refusal> {
    let asked = coracle_service::auth::text(headers, "git-protocol")?;
    Ok(Protocol::asked_for(asked.unwrap_or_default()))
}

fn preface(service: GitService) -> Bytes {
    let line = format!("# service={}\n", service.as_str());
    format!("{:04x}{line}0000", line.len() + 4).into()
}

fn only_smart() -> Refusal {
    let error = Error::new(Kind::Invalid, "only git's smart protocol is spoken here");
    error.hint("name `git-upload-pack` or `git-receive-pack` as `service`").into()
}

fn no_pipes(error: io::Error) -> Refusal {
    Error::internal("could not make a pipe to git", error).into()
}

fn fault() -> Refusal {
    Error::new(Kind::Internal, "a fault of ours ended the request").into()
}
