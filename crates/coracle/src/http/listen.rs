//! Where the daemon listens, and the life of one connection: bounded in number, in the size of its headers, and in how
//! long either side may keep the other waiting.

mod bind;
mod patient;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

pub use self::bind::{Address, Bound, bind};
use self::patient::Patient;

/// Connections at once on one listener. Each costs some kilobytes; an open file limit of twenty thousand leaves room
/// for the rest.
const CONNECTIONS_MAX: usize = 4096;
/// How long the head of a request may take, and how long a connection may be kept without one.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// How long a client may leave what was sent to it unread.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);
/// The size of a request's head, and of pieces of its body.
const BUFFER_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;

/// Who is at the other end of a connection.
#[derive(Debug, Clone)]
pub enum Peer {
    /// A process of this user, as the kernel says.
    Unix {
        uid: u32,
    },
    Tcp(SocketAddr),
}

impl Peer {
    /// Returns where they are on the network.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Unix { .. } => None,
            Self::Tcp(address) => Some(address.ip()),
        }
    }
}

/// Serves until `closing` is cancelled, then waits for `drain` at most until those who were asking have their answer.
pub async fn serve(bound: Vec<Bound>, router: Router, closing: CancellationToken, drain: Duration) {
    let halls = bound.into_iter().map(|bound| {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let hall = Hall { router: router.clone(), closing: closing.clone(), places };
        tokio::spawn(async move {
            match bound {
                Bound::Unix(listener) => hall.accept_unix(&listener).await,
                Bound::Tcp(listener) => hall.accept_tcp(&listener).await,
            }
            // Nobody is connected any more when every place can be taken.
            let _ = timeout(drain, hall.places.acquire_many(CONNECTIONS_MAX as u32)).await;
        })
    });
    for hall in halls.collect::<Vec<_>>() {
        let _ = hall.await;
    }
}

/// What the connections of one listener share.
struct Hall {
    router: Router,
    closing: CancellationToken,
    places: Arc<Semaphore>,
}

impl Hall {
    async fn accept_unix(&self, listener: &UnixListener) {
        while let Some(accepted) = until(&self.closing, listener.accept()).await {
            // Whoever cannot be asked for is nobody.
            match accepted.and_then(|(stream, _)| Ok((stream.peer_cred()?.uid(), stream))) {
                Ok((uid, stream)) => self.attend(stream, Peer::Unix { uid }),
                Err(_) => pause_after_failure().await,
            }
        }
    }

    async fn accept_tcp(&self, listener: &TcpListener) {
        while let Some(accepted) = until(&self.closing, listener.accept()).await {
            match accepted {
                Ok((stream, peer)) => {
                    let _ = stream.set_nodelay(true);
                    self.attend(stream, Peer::Tcp(peer));
                }
                Err(_) => pause_after_failure().await,
            }
        }
    }

    /// Serves one connection in the background. Where there are too many already it is dropped, which the client sees
    /// at once.
    fn attend<S>(&self, stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Ok(place) = self.places.clone().try_acquire_owned() else { return };
        let (router, closing) = (self.router.clone(), self.closing.clone());
        let answer = service_fn(move |request| answer(router.clone(), peer.clone(), request));
        let mut connection = Box::pin(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_PATIENCE)
                .max_buf_size(BUFFER_MAX)
                .max_headers(HEADERS_MAX)
                .serve_connection(TokioIo::new(Patient::new(stream, WRITE_PATIENCE)), answer)
                .with_upgrades(),
        );
        tokio::spawn(async move {
            // How a connection ended is the client's business.
            if until(&closing, &mut connection).await.is_none() {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
            drop(place);
        });
    }
}

async fn until<T>(closing: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        () = closing.cancelled() => None,
        done = work => Some(done),
    }
}

/// Out of descriptors, most likely; trying again at once would be a busy loop.
async fn pause_after_failure() {
    sleep(Duration::from_millis(50)).await;
}

async fn answer(
    mut router: Router,
    peer: Peer,
    request: hyper::Request<Incoming>,
) -> Result<Response, Infallible> {
    let mut request: Request = request.map(Body::new);
    request.extensions_mut().insert(peer);
    router.call(request).await
}
