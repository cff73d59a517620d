//! A stream that gives up on two kinds of clients: one that does not read what is sent to it, and one that has
//! disconnected while its answer is being made.
//!
//! A client that only closes its sending side (`shutdown`) has not left. On a unix socket the kernel distinguishes
//! the two. Over TCP they look the same until something is written, so [`Hearing`] tells streams, which then write a
//! keep-alive: the kernel of a client that is gone refuses it.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;

/// How often a half-closed client is checked again.
const LOOK: Duration = Duration::from_millis(250);

/// What is known about a client's connection besides its requests. All clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Hearing(Arc<Heard>);

#[derive(Debug, Default)]
struct Heard {
    /// Cancelled when the client has closed its sending side.
    silent: CancellationToken,
    /// A half-closed client counts as gone.
    strict: AtomicBool,
}

impl Hearing {
    /// Waits until the client has closed its sending side, which it also does by leaving.
    pub async fn silence(&self) {
        self.0.silent.cancelled().await;
    }

    /// Counts a half-closed client as gone, where the kernel does not distinguish the two, until its next request.
    pub fn be_strict(&self) {
        self.0.strict.store(true, Ordering::Relaxed);
    }

    /// Begins another request: strictness for the one before must not apply to it.
    pub(super) fn begin(&self) {
        self.0.strict.store(false, Ordering::Relaxed);
    }
}

/// How far a client has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// It has closed its sending side.
    Half,
    Whole,
}

/// What can be read from a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Bytes,
    /// Nothing, and never again.
    End(Gone),
}

/// A socket whose other end can be examined.
pub trait Socket: AsyncRead + AsyncWrite + AsFd + Unpin {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Peeks at unread data without taking it; where there is none, the next call of `poll_readable` waits.
    fn peek(&self) -> io::Result<usize>;
}

impl Socket for UnixStream {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(context)
    }

    fn peek(&self) -> io::Result<usize> {
        self.try_io(Interest::READABLE, || peek_at(self))
    }
}

impl Socket for TcpStream {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(context)
    }

    fn peek(&self) -> io::Result<usize> {
        self.try_io(Interest::READABLE, || peek_at(self))
    }
}

fn peek_at(socket: &impl AsFd) -> io::Result<usize> {
    let (count, _) = recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(count)
}

/// Tells how far the other end has gone, however much of its data is unread.
fn how_far(socket: &impl AsFd) -> Option<Gone> {
    let mut looked = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut looked, Some(&now)).ok()?;
    let events = looked[0].revents();
    match events.intersects(PollFlags::HUP | PollFlags::ERR) {
        true => Some(Gone::Whole),
        false => events.contains(PollFlags::RDHUP).then_some(Gone::Half),
    }
}

/// Fails when nothing could be written for a while, and when the client has left.
#[derive(Debug)]
pub struct Patient<S> {
    stream: S,
    patience: Duration,
    hearing: Hearing,
    /// Runs while the client does not read what is written.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Runs while the client is half-closed, and while its sent data stays unread here.
    looking: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub fn new(stream: S, patience: Duration, hearing: Hearing) -> Self {
        Self { stream, patience, hearing, waiting: None, looking: None }
    }

    /// Measures the time while writing does not progress.
    fn judge<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        waiting.as_mut().reset(Instant::now() + patience);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nothing was read for too long")))
    }
}

impl<S: Socket> Patient<S> {
    /// Fails once the client has left. Otherwise it is called again when that may have changed.
    fn expect_client(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        // Unread data is for the request's handler to read. If it stays unread for a while, the client may have left
        // behind it.
        let mut overdue = false;
        loop {
            let seen = match self.look(context) {
                Poll::Pending => {
                    self.looking = None;
                    return Ok(());
                }
                Poll::Ready(Seen::Bytes) if overdue => how_far(&self.stream),
                Poll::Ready(Seen::Bytes) => None,
                Poll::Ready(Seen::End(gone)) => Some(gone),
            };
            if let Some(gone) = seen {
                let strict = self.hearing.0.strict.load(Ordering::Relaxed);
                self.hearing.0.silent.cancel();
                if gone == Gone::Whole || strict {
                    return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the client has left"));
                }
            }
            let looking = self.looking.get_or_insert_with(|| Box::pin(sleep(LOOK)));
            match looking.as_mut().poll(context) {
                Poll::Pending => return Ok(()),
                Poll::Ready(()) => looking.as_mut().reset(Instant::now() + LOOK),
            }
            overdue = true;
        }
    }

    /// Returns what can be read from the client, once there is something.
    fn look(&self, context: &mut Context<'_>) -> Poll<Seen> {
        loop {
            if ready!(self.stream.poll_readable(context)).is_err() {
                return Poll::Ready(Seen::End(Gone::Whole));
            }
            match self.stream.peek() {
                Ok(0) => return Poll::Ready(Seen::End(how_far(&self.stream).unwrap_or(Gone::Half))),
                Ok(_) => return Poll::Ready(Seen::Bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Poll::Ready(Seen::End(Gone::Whole)),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: Socket> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, data);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, data);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper calls this whenever it polls the connection, also while an answer is being made. At that time no read is
    /// pending that would notice that the client has left.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.expect_client(context)?;
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn block_on(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(work);
    }

    fn patient(stream: UnixStream, patience: Duration) -> Patient<UnixStream> {
        Patient::new(stream, patience, Hearing::default())
    }

    /// Tells whether the client counts as gone within a while.
    async fn is_given_up(patient: &mut Patient<UnixStream>) -> bool {
        let looked = std::future::poll_fn(|context| match patient.expect_client(context) {
            Ok(()) => Poll::Pending::<()>,
            Err(_) => Poll::Ready(()),
        });
        tokio::time::timeout(3 * LOOK, looked).await.is_ok()
    }

    #[test]
    fn who_does_not_read_is_given_up_and_who_reads_slowly_is_not() {
        block_on(async {
            let much = vec![0; 4 << 20];
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            let error = patient(ours, Duration::from_millis(20)).write_all(&much).await;
            assert_eq!(error.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
            drop(theirs);

            let (ours, mut theirs) = UnixStream::pair().expect("a pair");
            let reader = async {
                let mut all = much.clone();
                for piece in all.chunks_mut(1 << 20) {
                    sleep(Duration::from_millis(20)).await;
                    theirs.read_exact(piece).await.expect("reads");
                }
            };
            let mut patient = patient(ours, Duration::from_secs(5));
            let (written, ()) = tokio::join!(patient.write_all(&much), reader);
            assert!(written.is_ok());
        });
    }

    #[test]
    fn who_sends_no_more_is_waited_for_and_who_leaves_is_not() {
        block_on(async {
            let (ours, mut theirs) = UnixStream::pair().expect("a pair");
            let mut patient = patient(ours, Duration::from_secs(5));
            assert!(!is_given_up(&mut patient).await, "it is there");

            theirs.shutdown().await.expect("it can be shut");
            assert!(!is_given_up(&mut patient).await, "it still reads");
            assert!(patient.hearing.0.silent.is_cancelled());

            drop(theirs);
            assert!(is_given_up(&mut patient).await, "it has left");
        });
    }

    #[test]
    fn who_leaves_behind_something_unread_is_noticed_and_who_stays_is_not() {
        block_on(async {
            let (ours, mut theirs) = UnixStream::pair().expect("a pair");
            let mut patient = patient(ours, Duration::from_secs(5));
            theirs.write_all(b"\r\n").await.expect("there is room");
            assert!(!is_given_up(&mut patient).await, "it is there");

            theirs.shutdown().await.expect("it can be shut");
            assert!(!is_given_up(&mut patient).await, "it still reads");

            drop(theirs);
            assert!(is_given_up(&mut patient).await, "it has left");
        });
    }

    #[test]
    fn strictness_ends_with_the_request_it_was_for() {
        block_on(async {
            let (ours, mut theirs) = UnixStream::pair().expect("a pair");
            let mut patient = patient(ours, Duration::from_secs(5));
            theirs.shutdown().await.expect("it can be shut");

            patient.hearing.be_strict();
            patient.hearing.begin();
            assert!(!is_given_up(&mut patient).await, "the next request has nothing to do with that");

            patient.hearing.be_strict();
            assert!(is_given_up(&mut patient).await);
        });
    }
}
