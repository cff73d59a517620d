//! Raw files of any size: only the pieces on their way are in memory.

use std::io::{self, Read, Write};
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, BodyDataStream};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::{Buf, Bytes};
use coracle::{NewFile, Result, SandboxId};
use coracle_core::spec::check_path;
use coracle_engine::Inline;
use coracle_engine::ops::sandbox::fs_write;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::Instrument;

use coracle_service::auth::Identity;
use coracle_service::reply::{self, Refusal};
use coracle_service::{Deadline, Service, body};

/// Pieces between a thread and a connection, besides the one the thread has and those the connection writes.
const PIECES_MAX: usize = 1;
/// How much of a file is read at once: a client that does not read what it asked for costs four of these.
const PIECE: u64 = 64 << 10;
/// How long a file transfer may stall before it is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The file that a query names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    path: String,
    user: Option<String>,
}

/// The file that a query wants written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    path: String,
    mode: Option<String>,
    overwrite: Option<bool>,
    user: Option<String>,
}

type PathOf = Result<Path<SandboxId>, axum::extract::rejection::PathRejection>;
type QueryOf<T> = Result<Query<T>, axum::extract::rejection::QueryRejection>;

/// Sends a file's bytes.
pub async fn download(
    State(service): State<Service>,
    Extension(identity): Extension<Identity>,
    Extension(deadline): Extension<Deadline>,
    sandbox: PathOf,
    named: QueryOf<Named>,
) -> Result<Response, Refusal> {
    identity.may("sandbox_fs_read")?;
    let Path(sandbox) = sandbox.map_err(Refusal::unreadable)?;
    let Query(Named { path, user }) = named.map_err(Refusal::unreadable)?;
    check_path("path", &path)?;
    let places = service.streams().clone();
    let (sender, mut pieces) = mpsc::channel(PIECES_MAX);
    let reading = service.clone();
    let sending = async move {
        let (last, caller) = (sender.clone(), identity.caller.clone());
        let read = reading
            .ask(&identity, move |engine| {
                let mut attached =
                    engine.answering(Inline::at_most(PIECE)).execs().attach(&caller, &sandbox)?;
                attached.act_as(user);
                let _seat = places.take(sandbox.as_str(), caller.tenant.as_ref())?;
                attached.read_file(path.as_bytes(), &mut Sink(sender))
            })
            .await;
        if let Err(refusal) = read {
            let _ = last.send(Err(*refusal.error)).await;
        }
    };
    tokio::spawn(sending.in_current_span());
    // An error in the file is reported by the status, as long as none of the file was sent.
    let first = match deadline.bound(pieces.recv()).await? {
        Some(Err(error)) => return Err(error.into()),
        first => first,
    };
    // At the deadline the rest is missing, which the client sees from the length or the last chunk.
    let rest = stream::unfold(pieces, move |mut pieces| async move {
        let piece = deadline.bound(pieces.recv()).await.unwrap_or_else(|late| Some(Err(late)));
        Some((piece?, pieces))
    });
    let body =
        stream::iter(first).chain(rest).map(|piece| piece.map_err(|error| io::Error::other(error.chain())));
    Ok(raw(Body::from_stream(body)))
}

fn raw(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    // An agent wrote the contents; a browser must not display them.
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Writes a file from the request's bytes, whole or not at all.
pub async fn upload(
    State(service): State<Service>,
    Extension(identity): Extension<Identity>,
    sandbox: PathOf,
    wanted: QueryOf<Wanted>,
    request: Request,
) -> Result<Response, Refusal> {
    identity.may("sandbox_fs_write")?;
    let Path(sandbox) = sandbox.map_err(Refusal::unreadable)?;
    let Query(wanted) = wanted.map_err(Refusal::unreadable)?;
    check_path("path", &wanted.path)?;
    let file = NewFile {
        mode: wanted.mode.as_deref().map(fs_write::parse_mode).transpose()?,
        overwrite: wanted.overwrite.unwrap_or(true),
        ..NewFile::at(wanted.path)
    };
    let deadline = Deadline::kept_in(request.extensions());
    let (sender, pieces) = mpsc::channel(PIECES_MAX);
    let pass_on = tokio::spawn(pass_on(request.into_body().into_data_stream(), sender));
    let caller = identity.caller.clone();
    let written = service.ask(&identity, move |engine| {
        let mut source = Source { pieces, rest: Bytes::new(), ended: false };
        let mut attached = engine.execs().attach(&caller, &sandbox)?;
        attached.act_as(wanted.user);
        attached.write_file(&file, &mut source)
    });
    let written = deadline.bound(written).await;
    // The writer of a body that ends here writes nothing.
    pass_on.abort();
    let written = match (written?, pass_on.await) {
        (Err(_), Ok(Err(broken))) => return Err(broken),
        (written, _) => written,
    };
    let path = String::from_utf8_lossy(&written?).into_owned();
    Ok(reply::json(&fs_write::Output { ok: true, path }))
}

/// Passes a body to the thread that writes it. Fails if the body stalls or breaks off, and then has the writer fail.
async fn pass_on(mut body: BodyDataStream, sender: mpsc::Sender<io::Result<Bytes>>) -> Result<(), Refusal> {
    loop {
        let piece = match timeout(PATIENCE, body.next()).await {
            // The writer would take an empty piece for the end.
            Ok(Some(Ok(piece))) if piece.is_empty() => continue,
            Ok(Some(Ok(piece))) => Ok(piece),
            Ok(None) => Ok(Bytes::new()),
            Ok(Some(Err(_))) => Err(body::broken_off()),
            Err(_) => Err(body::too_slow(PATIENCE)),
        };
        let last = piece.as_ref().map_or(true, Bytes::is_empty);
        let passed = piece.as_ref().map(Bytes::clone).map_err(|_| io::ErrorKind::UnexpectedEof.into());
        if sender.send(passed).await.is_err() {
            // The writer has failed before, and knows why.
            return Ok(());
        }
        if last {
            return piece.map(drop);
        }
    }
}

/// Where a thread puts bytes for a connection to send; waits while the connection is not ready.
struct Sink(mpsc::Sender<Result<Bytes>>);

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(data)));
        sent.map(|()| data.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where a thread gets the bytes a connection received. An empty piece is the end; without one the body broke off.
struct Source {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
    ended: bool,
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && !self.ended {
            self.rest =
                self.pieces.blocking_recv().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))?;
            self.ended = self.rest.is_empty();
        }
        let count = self.rest.len().min(into.len());
        self.rest.copy_to_slice(&mut into[..count]);
        Ok(count)
    }
}
