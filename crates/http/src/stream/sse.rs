//! Server-sent events. Each chunk's number is the event's id, so that browsers and other clients send it by
//! themselves when they reconnect.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use coracle::{Error, Result};
use futures_util::{Stream, StreamExt, stream};
use serde::{Deserialize, Serialize};

use super::{Named, Reader, Reading, StreamItem, items};
use coracle_service::Deadline;
use coracle_service::Service;
use coracle_service::TokenRecheck;
use coracle_service::auth::Identity;
use coracle_service::listen::Hearing;
use coracle_service::reply::Refusal;

/// A keep-alive: proxies close connections that are idle for a minute.
pub const NOTHING: Bytes = Bytes::from_static(b":\n\n");

/// The pauses before each keep-alive after a client has closed its sending side. The kernel of a client that has left
/// refuses the first, and the second write sees that.
const SIGNS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(100), Duration::from_secs(1)];

/// The query of a client.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    since_seq: Option<u64>,
}

pub async fn serve(
    State(service): State<Service>,
    Extension(identity): Extension<Identity>,
    named: Result<Path<Named>, axum::extract::rejection::PathRejection>,
    asked: Result<Query<Asked>, axum::extract::rejection::QueryRejection>,
    Extension(hearing): Extension<Hearing>,
    Extension(deadline): Extension<Deadline>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    identity.may("sandbox_exec_read")?;
    let Path(named) = named.map_err(Refusal::unreadable)?;
    let Query(asked) = asked.map_err(Refusal::unreadable)?;
    let reading = Reading { since: since(&headers, asked.since_seq)?, attend: false, deadline };
    let reader = Reader::start(&service, &identity, named, reading).await?;
    Ok(response(hearing, stream::unfold(Some((reader, TokenRecheck::new(identity, service))), step)))
}

/// Answers with a stream of events.
pub fn response(
    hearing: Hearing,
    events: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    let signed = stream::unfold((Box::pin(events), hearing, 0), |(mut events, hearing, signs)| async move {
        tokio::select! {
            event = events.next() => Some((event?, (events, hearing, signs))),
            () = sign(&hearing, signs) => Some((Ok(NOTHING), (events, hearing, signs + 1))),
        }
    });
    let mut response = Response::new(Body::from_stream(signed));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Waits until it is time for a keep-alive that finds out whether the client has left.
async fn sign(hearing: &Hearing, signs: usize) {
    match SIGNS.get(signs) {
        Some(after) => {
            hearing.silence().await;
            tokio::time::sleep(*after).await;
        }
        None => std::future::pending().await,
    }
}

/// Returns where to continue: `Last-Event-ID` overrides the query.
pub fn since(headers: &HeaderMap, asked: Option<u64>) -> Result<u64> {
    let Some(last) = headers.get("last-event-id") else { return Ok(asked.unwrap_or(0)) };
    let number = last.to_str().ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Error::invalid("Last-Event-ID", "is not the number of an event"))
}

/// The state of a stream; `None` after its last event.
type StreamState = Option<(Reader, TokenRecheck)>;

/// Reads on when the client has taken what was read before.
async fn step(state: StreamState) -> Option<(Result<Bytes, Infallible>, StreamState)> {
    let (reader, mut recheck) = state?;
    // Without an end, as below: a client that reconnects learns why.
    if !recheck.is_valid().await {
        return None;
    }
    let mut seq = reader.seq();
    let closing = recheck.service.closing().clone();
    let read = tokio::select! {
        read = reader.next() => read,
        // Without an end: the client reconnects and goes on.
        () = closing.cancelled() => return None,
    };
    let (reader, batch) = read;
    match batch {
        Ok(None) => None,
        Ok(Some(batch)) => {
            let mut text = Vec::new();
            items(batch).for_each(|item| {
                if let StreamItem::Chunk(chunk) = &item {
                    seq = chunk.seq;
                }
                write(&mut text, seq, &item);
            });
            let bytes = if text.is_empty() { NOTHING } else { text.into() };
            Some((Ok(bytes), Some((reader, recheck))))
        }
        Err(error) => {
            let mut text = Vec::new();
            write(&mut text, seq, &StreamItem::failure(&recheck.identity, error));
            Some((Ok(text.into()), None))
        }
    }
}

fn write(text: &mut Vec<u8>, seq: u64, item: &StreamItem) {
    let name = match item {
        StreamItem::Chunk(_) => "chunk",
        StreamItem::End(_) => "end",
        StreamItem::Error { .. } => "error",
    };
    text.extend(event(seq, name, item));
}

/// Returns one encoded event.
pub fn event(seq: u64, name: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("id: {seq}\nevent: {name}\ndata: {data}\n\n").into()
}
