//! Events of sandboxes: a page of them, or a stream for clients that accept server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use axum::{Extension, RequestExt};
use bytes::Bytes;
use coracle::{Error, Result};
use coracle_core::event::{Filter, Page};
use coracle_engine::ops::event::list;
use coracle_engine::{Watch, ops};
use futures_util::stream;
use serde_json::{Map, Value, json};

use super::stream::sse;
use super::{call, query};
use coracle_service::Seat;
use coracle_service::Service;
use coracle_service::TokenRecheck;
use coracle_service::auth::Identity;
use coracle_service::listen::Hearing;
use coracle_service::reply::Refusal;
use coracle_service::{Deadline, deadline};

/// How long an idle stream waits before it sends a keep-alive: proxies close connections that are idle for a minute.
const SILENCE: Duration = Duration::from_secs(15);
/// How many events are read for a client at once, and held while it does not read: some tens of kilobytes.
const BATCH_MAX: usize = 100;

pub async fn serve(
    (route, fields): call::Way,
    State(service): State<Service>,
    Extension(identity): Extension<Identity>,
    request: Request,
) -> Result<Response, Refusal> {
    if !wants_stream(request.headers()) {
        let nothing = Ok(Path(Vec::new()));
        return call::serve((route, fields), State(service), Extension(identity), nothing, request).await;
    }
    identity.may(route.operation)?;
    let hearing = request.extensions().get::<Hearing>().cloned().unwrap_or_default();
    let deadline = Deadline::kept_in(request.extensions());
    let (since, filter) = asked(&fields, request).await?;
    let caller = &identity.caller;
    let whose = caller.tenant.as_ref().map(|tenant| tenant.as_str()).unwrap_or_default();
    let seat = service.streams().take(&format!("events {whose}"), caller.tenant.as_ref())?;
    let watch = service.engine().access().watch(caller, since, filter);
    let reader = Reader { watch, seat, recheck: TokenRecheck::new(identity, service), deadline };
    Ok(sse::response(hearing, stream::unfold(Some(reader), step)))
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|one| one.trim().starts_with("text/event-stream"))
}

/// Returns where to begin, and the filter.
async fn asked(fields: &Value, mut request: Request) -> Result<(u64, Filter), Refusal> {
    let Query(pairs) = request.extract_parts::<query::Pairs>().await.map_err(Refusal::unreadable)?;
    let mut input = Map::new();
    query::put(&mut input, fields, pairs)?;
    let input: list::Input = ops::read("event_list", Value::Object(input))?;
    for (name, is_there) in [("max", input.max.is_some()), ("wait_ms", input.wait_ms.is_some())] {
        if is_there {
            return Err(Error::invalid(name, "is for pages, not for streams").into());
        }
    }
    let since = sse::since(request.headers(), Some(input.since_seq))?;
    Ok((since, input.filter()))
}

/// The state of a stream. Dropping it leaves nothing behind.
struct Reader {
    watch: Watch,
    seat: Seat,
    recheck: TokenRecheck,
    deadline: Deadline,
}

/// Reads on when the client has taken what was read before.
async fn step(place: Option<Reader>) -> Option<(Result<Bytes, Infallible>, Option<Reader>)> {
    let Reader { mut watch, seat, mut recheck, deadline } = place?;
    // A client that reconnects learns why.
    if !recheck.is_valid().await {
        return None;
    }
    let (closing, before) = (recheck.service.closing().clone(), watch.seq());
    // Dropped with this future if the client disconnects: then the thread ends, and its place is free.
    let (_left, wanted) = watch.bound();
    let reading = tokio::task::spawn_blocking(move || {
        let page = watch.next_few_while(BATCH_MAX, &wanted, SILENCE);
        // The place lives as long as the thread, not the connection, which may end earlier.
        (watch, seat, page)
    });
    let (watch, seat, page) = tokio::select! {
        // First: events may come faster than they are sent.
        biased;
        () = deadline.passed() => {
            return Some((Ok(failed(before, &recheck.identity, deadline::late())), None));
        }
        read = reading => read.ok()?,
        // The client reconnects and goes on.
        () = closing.cancelled() => return None,
    };
    match page {
        Ok(page) => Some((Ok(written(&page, before)), Some(Reader { watch, seat, recheck, deadline }))),
        Err(error) => Some((Ok(failed(before, &recheck.identity, error)), None)),
    }
}

fn failed(before: u64, to: &Identity, error: Error) -> Bytes {
    sse::event(before, "error", &to.told(error).to_json()["error"])
}

fn written(page: &Page, before: u64) -> Bytes {
    let mut text = Vec::new();
    // A client that starts at the beginning wants the events that are still kept.
    if before > 0 && page.forgotten > before {
        text.extend(sse::event(page.forgotten, "missed", &json!({"forgotten_seq": page.forgotten})));
    }
    for event in &page.events {
        text.extend(sse::event(event.seq, event.event.kind.as_str(), event));
    }
    if text.is_empty() { sse::NOTHING } else { text.into() }
}
