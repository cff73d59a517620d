//! One connection: the greeting, then requests, answered in order.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use coracle_wire::{
    Body, FaultCode, Hello, Refusal, Reply, Request, Running, Status, VERSION_MAX, VERSION_MIN, Welcome,
    decode, encode, negotiate,
};

use super::super::channel::{Channel, garbled};
use super::execs::Reading;
use super::files;
use super::{Answer, Guest, State, fault};

/// Serves until the client closes or sends something that is no message, or the guest dies.
pub fn serve(guest: &Guest, stream: UnixStream) {
    let mut channel = Channel::new(stream);
    // An error is dropped: a connection that broke has no reader for it.
    let ended = greet(guest, &mut channel).and_then(|welcome| match welcome {
        true => answer_requests(guest, &mut channel),
        false => Ok(End::Closed),
    });
    if let Ok(End::Parked) = ended {
        guest.park(channel.into_stream());
    }
}

/// What happens to a connection after its requests.
enum End {
    Closed,
    /// It waits for a network client.
    Parked,
}

fn greet(guest: &Guest, channel: &mut Channel) -> io::Result<bool> {
    let Some(payload) = channel.receive()? else { return Ok(false) };
    let hello: Hello = decode(&payload).map_err(garbled)?;
    let answer = match negotiate(&hello, VERSION_MIN, VERSION_MAX) {
        _ if hello.secret != guest.0.secret.0 => Err(Refusal::WrongSecret),
        None => Err(Refusal::NoCommonVersion),
        Some(version) => {
            Ok(Welcome { version, epoch: guest.state().epoch, boot: guest.0.boot, acting: Some(true) })
        }
    };
    channel.send(encode(&answer))?;
    Ok(answer.is_ok())
}

fn answer_requests(guest: &Guest, channel: &mut Channel) -> io::Result<End> {
    // An unfinished upload ends with the connection, and so does a hold.
    let connection = {
        let mut state = guest.state();
        state.serial += 1;
        state.serial
    };
    let mut begun =
        Begun { guest, connection, files: files::Begun::default(), holds: false, ties: Vec::new() };
    while let Some(payload) = channel.receive()? {
        let request: Request = decode(&payload).map_err(garbled)?;
        if let Body::Accept {} = request.body {
            return Ok(End::Parked);
        }
        if let Body::Tie { exec, .. } = request.body {
            if let Err(fault) = pass_fence(&mut guest.state(), request.epoch) {
                channel.send(encode(&Reply::Fault(fault)))?;
                continue;
            }
            guest.tie(exec.as_deref());
            begun.ties.push(exec);
            channel.send(encode(&Reply::Done {}))?;
            continue;
        }
        let reply = answer(guest, request, &mut begun, channel).unwrap_or_else(Reply::Fault);
        channel.send(encode(&reply))?;
    }
    Ok(End::Closed)
}

/// State that one request leaves for the next.
struct Begun<'a> {
    guest: &'a Guest,
    connection: u64,
    files: files::Begun,
    holds: bool,
    /// What ends with the connection.
    ties: Vec<Option<String>>,
}

impl Begun<'_> {
    fn let_go(&mut self) {
        if std::mem::take(&mut self.holds) {
            let mut state = self.guest.state();
            state.held = state.held.filter(|(holder, _)| *holder != self.connection);
            drop(state);
            self.guest.0.changed.notify_all();
        }
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.let_go();
        self.ties.iter().for_each(|exec| self.guest.end_tie(exec.as_deref()));
    }
}

/// Waits until the hold ends, and checks again that the epoch is the newest.
fn wait_until_let_go(guest: &Guest, epoch: u64) -> Answer<std::sync::MutexGuard<'_, State>> {
    let mut state = guest.state();
    while let Some((_, until)) = state.holder().filter(|_| !state.dead) {
        state.waiting += 1;
        state = guest.wait(state, until);
        state.waiting -= 1;
    }
    pass_fence(&mut state, epoch)?;
    Ok(state)
}

/// Refuses a change in a paused sandbox; makes it wait in a held one.
fn admit_change(guest: &Guest, epoch: u64) -> Answer<()> {
    match wait_until_let_go(guest, epoch)?.paused {
        true => Err(fault(FaultCode::Conflict, "the sandbox is paused")),
        false => Ok(()),
    }
}

fn hold(guest: &Guest, epoch: u64, lease_ms: Option<u64>, begun: &mut Begun<'_>) -> Answer<Reply> {
    let mut state = match begun.holds {
        true => guest.state(),
        false => wait_until_let_go(guest, epoch)?,
    };
    if begun.holds && state.holder().is_none_or(|(holder, _)| holder != begun.connection) {
        return Err(fault(FaultCode::Conflict, "the sandbox is not held any more"));
    }
    state.held = Some((begun.connection, lease_ms.map(deadline)));
    begun.holds = true;
    Ok(Reply::Held { idle: state.execs.running() == 0, lease_ms })
}

fn answer(guest: &Guest, request: Request, begun: &mut Begun<'_>, client: &mut Channel) -> Answer<Reply> {
    pass_fence(&mut guest.state(), request.epoch)?;
    match &request.body {
        Body::Stop { .. } => drop(wait_until_let_go(guest, request.epoch)?),
        body if body.is_change() => admit_change(guest, request.epoch)?,
        _ => {}
    }
    match request.body {
        Body::Pause {} | Body::Resume {} => {
            guest.state().paused = request.body == Body::Pause {};
            Ok(Reply::Done {})
        }
        Body::Hold { lease_ms, .. } => hold(guest, request.epoch, lease_ms, begun),
        Body::LetGo {} => {
            begun.let_go();
            Ok(Reply::Done {})
        }
        Body::Fence { running, before } => {
            if running == Running::Kill {
                guest.stop_before(before.unwrap_or(request.epoch));
            }
            Ok(Reply::Done {})
        }
        Body::Status { .. } => Ok(Reply::Status(status(guest))),
        Body::Start { exec, command } => guest.start(exec, command, request.epoch),
        Body::Adopt { tie_grace_ms: Some(_), .. } => {
            guest.tie(None);
            begun.ties.push(None);
            Ok(Reply::AdoptedTied {})
        }
        // The fake drops nothing, so attending changes nothing.
        Body::Attend { .. } | Body::Adopt { .. } | Body::Renew { .. } => Ok(Reply::Done {}),
        Body::Read { exec, since, max_chunks, wait_ms } => {
            let reading = Reading { exec: &exec, since, max_chunks: max_chunks as usize };
            guest.read(&reading, deadline(wait_ms), client)
        }
        Body::Wait { exec, wait_ms } => guest.wait_for_end(&exec, Some(deadline(wait_ms)), client),
        Body::Input { exec, data, eof } => guest.input(&exec, &data, eof),
        Body::Signal { exec, signal } => guest.signal(&exec, signal),
        Body::Stop { exec, .. } => guest.stop(&exec, client),
        Body::Resize { exec, .. } => guest.resize(&exec),
        Body::Execs {} => Ok(Reply::Execs(guest.state().execs.summaries())),
        Body::Accept {} | Body::Connect { .. } | Body::Tie { .. } | Body::Program { .. } => {
            Err(fault(FaultCode::NotFound, "nothing listens in a guest in memory"))
        }
        body => guest.state().files.answer(body, &mut begun.files),
    }
}

/// Refuses epochs older than the newest seen; remembers newer ones.
fn pass_fence(state: &mut State, epoch: u64) -> Answer<()> {
    if epoch < state.epoch {
        let current = state.epoch;
        return Err(fault(
            FaultCode::StaleEpoch { current },
            format!("epoch {epoch} is over, it is {current} now"),
        ));
    }
    state.epoch = epoch;
    Ok(())
}

fn status(guest: &Guest) -> Status {
    let uptime_ms = guest.0.born.elapsed().as_millis() as u64;
    let state = guest.state();
    Status {
        epoch: state.epoch,
        running: state.execs.running() as u64,
        idle_ms: 0,
        uptime_ms,
        spool_bytes: state.execs.spooled() as u64,
        paused: state.paused,
    }
}

/// Bounded, so that no number from the wire overflows the clock.
pub fn deadline(wait_ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(wait_ms.min(3_600_000))
}
