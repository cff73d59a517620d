//! Serves connections from the host, each on its own thread: a greeting, then requests and their answers.

mod fence;
mod pause;
mod program;
mod request;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coracle_wire::{
    Answer, Body, Decoder, Fault, FaultCode, Hello, Refusal, Reply, Request, VERSION_MAX, VERSION_MIN,
    Welcome,
};

use crate::reactor::Shared;
use crate::ties::Target;

pub use fence::Fence;
pub use pause::lapse;
pub use request::tie;

/// Most connections at once; each costs a thread.
const CONNECTIONS_MAX: usize = 256;
const STACK: usize = 256 << 10;
/// A caller that does not greet in time is not the host.
const GREETING_TIME: Duration = Duration::from_secs(5);

static SERIAL: AtomicU64 = AtomicU64::new(0);
static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);

/// Threads kept in reserve for when no more can be started.
const RESERVE: usize = 3;

/// Hands connections to the reserve threads when commands have used up the process limit.
static RESERVED: Mutex<Option<SyncSender<Task>>> = Mutex::new(None);

type Task = Box<dyn FnOnce() + Send>;

/// Starts the reserve threads: a container engine counts the guest's threads against the same limit as the
/// commands'.
pub fn keep_reserve() -> std::io::Result<()> {
    let (give, take) = std::sync::mpsc::sync_channel::<Task>(RESERVE);
    let take = Arc::new(Mutex::new(take));
    for _ in 0..RESERVE {
        let take = take.clone();
        std::thread::Builder::new().stack_size(STACK).spawn(move || {
            loop {
                let task = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(task) = task else { return };
                task();
            }
        })?;
    }
    *RESERVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(give);
    Ok(())
}

/// Serves one connection in the background.
pub fn spawn(stream: UnixStream, shared: Arc<Shared>) {
    let crowded = CONNECTIONS.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX;
    let task: Task = Box::new(move || {
        let _ = stream.set_nonblocking(false);
        serve(&stream, &shared, crowded);
        CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
    });
    // A thread that fails to start does not return its closure, so keep the task outside.
    let waiting = Arc::new(Mutex::new(Some(task)));
    let take = |waiting: &Mutex<Option<Task>>| waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    let ours = waiting.clone();
    let started = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        if let Some(task) = take(&ours) {
            task();
        }
    });
    if started.is_err() && !take(&waiting).is_some_and(hand_to_reserve) {
        CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells whether a reserve thread takes the task.
fn hand_to_reserve(task: Task) -> bool {
    let reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    reserved.as_ref().is_some_and(|reserved| reserved.try_send(task).is_ok())
}

/// Returns when the caller has gone or broken the protocol. Either way the connection ends, and what it began and
/// did not complete is undone.
fn serve(stream: &UnixStream, shared: &Shared, crowded: bool) -> Option<()> {
    let mut connection = Connection { stream, decoder: Decoder::default() };
    stream.set_read_timeout(Some(GREETING_TIME)).ok()?;
    let hello: Hello = coracle_wire::decode(&connection.receive()?).ok()?;
    let answer = greet(&hello, shared, crowded);
    connection.send(&answer)?;
    answer.ok()?;
    stream.set_read_timeout(None).ok()?;

    let connection_id = SERIAL.fetch_add(1, Ordering::Relaxed);
    let mut begun = request::Begun::on(connection_id, stream);
    let handed_over = converse(&mut connection, shared, &mut begun);
    begun.end(shared);
    let rest = std::mem::take(&mut connection.decoder).into_rest();
    match handed_over? {
        Handover::Park => shared.tunnels.park(stream.try_clone().ok()?),
        Handover::Join { port, epoch } => shared.tunnels.join(stream.try_clone().ok()?, port, epoch, rest),
    }
    // If the fence was raised between admission and now, it did not find this connection in the table; check again.
    shared.tunnels.cut_before(shared.fence.epoch());
    Some(())
}

/// What a connection is for from now on, instead of requests.
enum Handover {
    /// Waits for a command that connects to a listener.
    Park,
    /// Carries a connection to a port of the sandbox.
    Join { port: TcpStream, epoch: u64 },
}

/// Answers requests until the caller has gone or wants the connection for something else.
fn converse(
    connection: &mut Connection<'_>,
    shared: &Shared,
    begun: &mut request::Begun<'_>,
) -> Option<Handover> {
    loop {
        let payload = connection.receive()?;
        let request = coracle_wire::decode::<Request>(&payload);
        // A keeper that parks a connection does not count as use of the sandbox.
        if let Ok(Request { body: Body::Accept {}, .. }) = request {
            return Some(Handover::Park);
        }
        let watching = matches!(&request, Ok(Request { body: Body::Status { unnoticed: Some(true) }, .. }));
        if !watching {
            shared.usage.touch();
        }
        if let Ok(Request { body: Body::Connect { port }, epoch, .. }) = request {
            match request::connect(shared, epoch, port) {
                Ok(port) => {
                    connection.send(&Reply::Done {})?;
                    return Some(Handover::Join { port, epoch });
                }
                Err(fault) => connection.send(&Reply::Fault(fault))?,
            }
            continue;
        }
        if let Ok(Request { body: Body::Program { size, user }, epoch, .. }) = request {
            let wanted = program::Wanted { epoch, size, user };
            program::run(connection, shared, &wanted)?;
            continue;
        }
        if let Ok(Request { body: Body::Tie { exec, grace_ms }, epoch, .. }) = request {
            let target = Target { exec, epoch, grace: Duration::from_millis(grace_ms) };
            match request::tie(shared, target, connection.stream) {
                Ok(()) => connection.send(&Reply::Done {})?,
                Err(fault) => connection.send(&Reply::Fault(fault))?,
            }
            continue;
        }
        let reply = match request {
            Ok(request) => request::handle(shared, begun, request).unwrap_or_else(Reply::Fault),
            Err(error) => {
                Reply::Fault(Fault { code: FaultCode::Unknown, message: error.to_string(), errno: None })
            }
        };
        if !watching {
            shared.usage.touch();
        }
        connection.send(&reply)?;
    }
}

fn greet(hello: &Hello, shared: &Shared, crowded: bool) -> Answer {
    if !same(&hello.secret, &shared.secret) {
        return Err(Refusal::WrongSecret);
    }
    if crowded {
        return Err(Refusal::TooManyConnections);
    }
    let version = coracle_wire::negotiate(hello, VERSION_MIN, VERSION_MAX).ok_or(Refusal::NoCommonVersion)?;
    Ok(Welcome { version, epoch: shared.fence.epoch(), boot: shared.boot, acting: Some(true) })
}

/// Compares in constant time, so that timing does not reveal how much of a guess was right.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

struct Connection<'a> {
    stream: &'a UnixStream,
    decoder: Decoder,
}

impl Connection<'_> {
    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0; 16 << 10];
        loop {
            if let Some(payload) = self.decoder.next_payload().ok()? {
                return Some(payload.to_vec());
            }
            match self.stream.read(&mut buffer).ok()? {
                0 => return None,
                length => self.decoder.push(&buffer[..length]),
            }
        }
    }

    fn send<M: minicbor::Encode<()>>(&mut self, message: &M) -> Option<()> {
        let frame = coracle_wire::encode(message).ok()?;
        self.stream.write_all(&frame).ok()
    }
}
