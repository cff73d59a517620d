//! Where the daemon listens, and the life of one connection: bounded in number, in the size of its headers, and in
//! how long either side may keep the other waiting.

mod admission;
mod bind;
mod patient;
mod slots;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

pub use self::admission::Admission;
use self::admission::Begun;
pub use self::bind::{Address, Bound, bind};
pub use self::patient::Hearing;
use self::patient::{Patient, Socket};
pub use self::slots::Busy;
use self::slots::{ConnectionSlot, ConnectionSlots};
use super::ending::Ending;
use super::held_bytes::held_with;

/// How long a client may take for the head of a request, and how long a connection may stay without one.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// How long a client may leave sent bytes unread.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);
/// The maximum size of a request's head, and of pieces of its body.
const BUFFER_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;

/// The client of a connection.
#[derive(Debug, Clone)]
pub enum Peer {
    /// A process of this user, as the kernel reports it.
    Unix {
        uid: u32,
    },
    Tcp(SocketAddr),
}

impl Peer {
    /// Returns the client's network address.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Unix { .. } => None,
            Self::Tcp(address) => Some(address.ip()),
        }
    }
}

/// How often to check whether all clients have left.
const LEAVING: Duration = Duration::from_millis(10);
/// How long cancelled calls may take to end and to be answered: a command has half a second between TERM and KILL, and
/// its sandbox is removed.
const CANCELLING: Duration = Duration::from_secs(5);

/// What is served, and within which bounds.
#[derive(Debug)]
pub struct Serving {
    pub router: Router,
    /// Ends serving.
    pub closing: CancellationToken,
    /// How long running requests may then still take.
    pub drain: Duration,
    /// The calls that are cancelled after that.
    pub ending: Ending,
    /// How many files this process may have open.
    pub files: usize,
}

/// Serves until `closing` is cancelled, then waits until running requests are answered. Cancels those that are not
/// answered within the drain, and answers them.
pub async fn serve(bound: Vec<Bound>, serving: Serving) {
    let Serving { router, closing, drain, ending, files } = serving;
    let each = slots::for_each(bound.len(), files);
    let halls = bound.into_iter().map(|bound| {
        let hall =
            Hall { router: router.clone(), closing: closing.clone(), slots: ConnectionSlots::new(each) };
        tokio::spawn(async move {
            match bound {
                Bound::Unix(listener) => hall.accept_unix(&listener).await,
                Bound::Tcp(listener) => hall.accept_tcp(&listener).await,
            }
            hall
        })
    });
    let mut closed = Vec::new();
    for hall in halls.collect::<Vec<_>>() {
        closed.extend(hall.await);
    }
    if timeout(drain, emptied(&closed, &ending)).await.is_err() {
        ending.cancel();
        let _ = timeout(CANCELLING, emptied(&closed, &ending)).await;
    }
}

/// Waits until no client is connected and no call is under way, its client connected or not.
async fn emptied(halls: &[Hall], ending: &Ending) {
    while !(ending.are_none() && halls.iter().all(|hall| hall.slots.are_free())) {
        sleep(LEAVING).await;
    }
}

/// What the connections of one listener share.
struct Hall {
    router: Router,
    closing: CancellationToken,
    slots: ConnectionSlots,
}

impl Hall {
    async fn accept_unix(&self, listener: &UnixListener) {
        while let Some(accepted) = until(&self.closing, listener.accept()).await {
            // A client whose user the kernel does not report is not served.
            match accepted.and_then(|(stream, _)| Ok((stream.peer_cred()?.uid(), stream))) {
                Ok((uid, stream)) => self.attend(stream, Peer::Unix { uid }).await,
                Err(_) => pause_after_failure().await,
            }
        }
    }

    async fn accept_tcp(&self, listener: &TcpListener) {
        while let Some(accepted) = until(&self.closing, listener.accept()).await {
            match accepted {
                Ok((stream, peer)) => {
                    let _ = stream.set_nodelay(true);
                    self.attend(stream, Peer::Tcp(peer)).await;
                }
                Err(_) => pause_after_failure().await,
            }
        }
    }

    /// Serves one connection in the background. Where all slots are busy it drops the connection, which the client
    /// sees at once.
    async fn attend<S>(&self, stream: S, peer: Peer)
    where
        S: Socket + Send + Sync + 'static,
    {
        let Some(slot) = self.slots.take().await else { return };
        let (router, closing, hearing) = (self.router.clone(), self.closing.clone(), Hearing::default());
        let stream = Patient::new(stream, WRITE_PATIENCE, hearing.clone());
        let client = Client { peer, hearing, slot: slot.clone() };
        let answer = service_fn(move |request| answer(router.clone(), client.clone(), request));
        let mut connection = Box::pin(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_PATIENCE)
                .max_buf_size(BUFFER_MAX)
                .max_headers(HEADERS_MAX)
                // A client that closes its sending side after the request still gets its answer; `Patient` notices
                // one that has left.
                .half_close(true)
                .serve_connection(TokioIo::new(stream), answer)
                .with_upgrades(),
        );
        tokio::spawn(async move {
            // The result is dropped: the client knows how its connection ended.
            tokio::select! {
                // First: read what the client has sent by now, before it has to make room.
                biased;
                _ = &mut connection => {}
                () = slot.is_wanted() => if slot.is_busy() {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                },
                () = closing.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
            drop(slot);
        });
    }
}

/// The client of one connection, and its slot.
#[derive(Debug, Clone)]
struct Client {
    peer: Peer,
    hearing: Hearing,
    slot: Arc<ConnectionSlot>,
}

async fn until<T>(closing: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        () = closing.cancelled() => None,
        done = work => Some(done),
    }
}

/// Descriptors have most likely run out; trying again at once would be a busy loop.
async fn pause_after_failure() {
    sleep(Duration::from_millis(50)).await;
}

/// Answers a request; after its admission, only for as long as its client is connected.
fn answer(
    router: Router,
    client: Client,
    mut request: hyper::Request<Incoming>,
) -> Begun<impl Future<Output = Result<Response, Infallible>> + Send> {
    let admission = Admission::default();
    request.extensions_mut().insert(admission.clone());
    Begun::new(route(router, client, request), admission)
}

/// Passes a request to the routes. Until its answer is written, or given up, the connection keeps its slot.
async fn route(
    mut router: Router,
    client: Client,
    request: hyper::Request<Incoming>,
) -> Result<Response, Infallible> {
    let busy = Arc::new(client.slot.keep());
    let mut request: Request = request.map(Body::new);
    client.hearing.begin();
    request.extensions_mut().insert(client.peer);
    request.extensions_mut().insert(client.hearing);
    request.extensions_mut().insert(busy.clone());
    let response = router.call(request).await?;
    Ok(response.map(|body| Body::new(Written { body, busy })))
}

/// The body of an answer, whose bytes keep the slot of their connection.
#[derive(Debug)]
struct Written {
    body: Body,
    busy: Arc<Busy>,
}

impl hyper::body::Body for Written {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let kept = |frame: Frame<Bytes>| frame.map_data(|bytes| held_with(bytes, self.busy.clone()));
        Poll::Ready(frame.map(|frame| frame.map(kept)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    #[tokio::test]
    async fn a_place_is_kept_until_the_last_byte_of_its_answer_is_gone() {
        let slot = ConnectionSlots::new(1).take().await.expect("room");
        let busy = Arc::new(slot.keep());

        let mut body = Body::new(Written { body: Body::from("answer"), busy }).into_data_stream();
        let mut bytes = body.next().await.expect("all of it").expect("it is in memory");
        drop(body);
        let rest = bytes.split_off(3);
        drop(bytes);
        assert!(slot.is_busy(), "half of it waits to be read");
        drop(rest);
        assert!(!slot.is_busy());
    }
}
