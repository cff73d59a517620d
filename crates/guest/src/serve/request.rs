//! Carries out each request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_wire::{Body, Fault, FaultCode, Reply, Request, Running, Status};

use super::fence::FenceState;
use super::pause::{self, Hold};
use crate::client::has_ended;
use crate::execs::{Attendant, Bounds, Patience, Watched};
use crate::files::{self, Links, Reading, Replacing, Scope, Upload, Walk};
use crate::reactor::Shared;
use crate::rights;
use crate::ties::{Already, Target};

/// The longest wait of one request; the host asks again.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// How long the end of an exec may take once its grace is over.
const STOPPING: Duration = Duration::from_secs(10);

/// How long a port of the sandbox may take to accept. It is on the loopback interface.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// State that one request on a connection leaves for the next.
#[derive(Debug)]
pub struct Begun<'a> {
    /// Identifies this connection.
    connection: u64,
    stream: &'a UnixStream,
    upload: Option<Upload>,
    walk: Option<Walk>,
    /// The one file kept open to read on.
    reading: Option<Reading>,
    /// The exec this connection attends.
    attended: Option<String>,
    /// This connection holds the sandbox.
    holds: bool,
}

impl<'a> Begun<'a> {
    pub fn on(connection: u64, stream: &'a UnixStream) -> Self {
        Self { connection, stream, upload: None, walk: None, reading: None, attended: None, holds: false }
    }

    /// Releases what the connection held.
    pub fn end(&mut self, shared: &Shared) {
        self.let_go(shared);
        if let Some(exec) = self.attended.take() {
            shared.execs.leave(&exec, self.connection);
            shared.wake();
        }
    }

    fn attendant(&self, epoch: u64, since: u64) -> Attendant {
        Attendant { connection: self.connection, epoch, since }
    }

    fn let_go(&mut self, shared: &Shared) {
        if std::mem::take(&mut self.holds) {
            pause::let_go(shared, self.connection);
        }
    }
}

/// Carries out a request, if the fence admits it.
pub fn handle(shared: &Shared, begun: &mut Begun<'_>, request: Request) -> Result<Reply, Fault> {
    let Request { epoch, body, acting } = request;
    let execs = &shared.execs;
    let admitted = match &body {
        Body::Stop { .. } => shared.fence.admit_stop(epoch)?,
        body if body.is_change() => shared.fence.admit_change(epoch)?,
        _ => shared.fence.admit(epoch)?,
    };
    cut_before(shared, epoch);
    if let Body::FileWrite { .. } = body {
        // Drop the old upload with the guest's own rights: it may belong to another user.
        begun.upload = None;
    }
    let _rights = rights::assume(acting.as_ref().filter(|_| body.is_about_files()))?;
    match body {
        // `serve` handles these before it comes to this.
        Body::Accept {} | Body::Connect { .. } | Body::Tie { .. } | Body::Program { .. } => {
            Err(files::out_of_turn("the connection is for requests"))
        }
        Body::Fence { running, before } => {
            drop(admitted);
            if running == Running::Kill {
                execs.stop_before(before.map_or(epoch, |before| before.min(epoch)), || shared.wake())?;
            }
            Ok(Reply::Done {})
        }
        Body::Status { .. } => Ok(Reply::Status(status(shared, &admitted))),
        Body::Renew { exec, deadline_ms, grace_ms, output_bytes } => {
            execs.renew(&exec, epoch, Bounds { deadline_ms, grace_ms, output_bytes })?;
            shared.wake();
            Ok(Reply::Done {})
        }
        Body::Adopt { env, workdir, ttl_ms, tie_grace_ms } => {
            let target = tie_grace_ms.map(|grace_ms| Target {
                exec: None,
                epoch,
                grace: Duration::from_millis(grace_ms),
            });
            shared.adopt(&env, workdir, ttl_ms);
            // If it cannot be tied, the host asks for that alone and learns why.
            match target.is_some_and(|target| tie_admitted(shared, target, begun.stream).is_ok()) {
                true => Ok(Reply::AdoptedTied {}),
                false => Ok(Reply::Done {}),
            }
        }
        Body::Start { exec, command } => {
            let untied = command.tied == Some(false);
            let watch = |watched: Watched, descriptor: &OwnedFd| match watched {
                Watched::Pipe(token) => shared.watch(token, descriptor),
                Watched::Report => shared.watch_report(descriptor),
            };
            let reserved = || {
                if untied {
                    shared.ties.untie(&exec);
                }
            };
            let existing = execs.start(epoch, &exec, &command, reserved, watch)?;
            if existing && untied {
                // A client that wants the exec to go on has joined: no connection ends it now.
                shared.ties.untie(&exec);
            }
            // The client may have gone while this request was on its way.
            execs.stop_untied(&exec, || shared.ties.is_over(&exec));
            // The exec's deadline may be the next one now.
            shared.wake();
            Ok(Reply::Started { existing })
        }
        Body::Attend { exec, since } => {
            execs.attend(&exec, begun.attendant(epoch, since))?;
            begun.attended = Some(exec);
            Ok(Reply::Done {})
        }
        // Do not hold the fence while waiting, so that it can be raised. Check it again before the answer.
        Body::Read { exec, since, max_chunks, wait_ms } => {
            if begun.attended.as_ref() == Some(&exec) {
                // Asking for what comes after `since` says that everything up to there has arrived. Record it under
                // the fence: a caller the fence was raised against must not become an attendant again.
                execs.attend(&exec, begun.attendant(epoch, since))?;
                execs.resume(|token, pipe| shared.watch(token, pipe));
            }
            drop(admitted);
            let client = shared.client(begun.stream);
            let patience = Patience { epoch, wait: wait(wait_ms), client: &client };
            let (chunks, state) = execs.read(&exec, since, max_chunks as usize, patience)?;
            drop(shared.fence.admit(epoch)?);
            Ok(Reply::Output { chunks, state })
        }
        Body::Wait { exec, wait_ms } => {
            drop(admitted);
            let client = shared.client(begun.stream);
            let state = execs.wait(&exec, Patience { epoch, wait: wait(wait_ms), client: &client })?;
            drop(shared.fence.admit(epoch)?);
            Ok(Reply::State(state))
        }
        Body::Input { exec, data, eof } => {
            drop(admitted);
            write_input(shared, begun.stream, epoch, &Input { exec, data, eof })
        }
        Body::Signal { exec, signal } => execs.signal(&exec, signal).map(|()| Reply::Done {}),
        Body::Stop { exec, grace_ms } => {
            // End the exec under the fence; only wait without it.
            let grace = execs.begin_stop(&exec, grace_ms.map(Duration::from_millis))?;
            drop(admitted);
            shared.wake();
            let client = shared.client(begun.stream);
            let patience = Patience { epoch, wait: grace + STOPPING, client: &client };
            execs.wait(&exec, patience)?;
            execs.wait_for_kept(&exec, patience)?;
            let state = execs.wait(&exec, Patience { wait: Duration::ZERO, ..patience })?;
            drop(shared.fence.admit(epoch)?);
            Ok(Reply::State(state))
        }
        Body::Resize { exec, size } => execs.resize(&exec, size).map(|()| Reply::Done {}),
        Body::Execs {} => Ok(Reply::Execs(execs.list())),
        Body::FileRead { path, offset, max_bytes } => files::read(&path, offset, max_bytes),
        Body::FileOpen { path, max_bytes, follow, top } => {
            let links = if follow { Links::Follow } else { Links::Keep };
            begun.reading = None;
            open(begun, Reading::begin(&path, links, top)?, max_bytes)
        }
        Body::FileGoOn { offset, max_bytes } => {
            let reading = begun.reading.as_ref().ok_or_else(|| files::out_of_turn("no file was opened"))?;
            let (data, size) = (reading.piece(offset, max_bytes)?, reading.describe()?.size);
            if files::is_last(&data, max_bytes) {
                begun.reading = None;
            }
            Ok(Reply::File { data, size })
        }
        Body::FileWrite { path, mode, overwrite, data, last, placing } => {
            let replacing = if overwrite { Replacing::Allow } else { Replacing::Refuse };
            let upload = Upload::begin(&path, mode, replacing, placing)?;
            proceed(begun, upload, &data, last)
        }
        Body::FileMore { data, last } => {
            let upload = begun.upload.take().ok_or_else(|| files::out_of_turn("no file was begun"))?;
            proceed(begun, upload, &data, last)
        }
        Body::FileDirectory { path, top } => files::make_directory(&path, top),
        Body::FileLink { path, target, mtime, top } => files::make_link(&path, &target, mtime, top),
        Body::FileFinish { path, mode, mtime, top } => files::finish_directory(&path, mode, mtime, top),
        Body::FileList { path, recursive, whole } => {
            let scope = Scope { recursive, whole: whole.unwrap_or(false) };
            begun.walk = Some(Walk::begin(&path, scope)?);
            list(begun)
        }
        Body::FileListMore {} => list(begun),
        Body::FileStat { path } => files::stat(&path),
        Body::FileMove { from, to, overwrite, top } => files::rename(&from, &to, overwrite, top),
        Body::FileDelete { path, recursive } => {
            drop(admitted);
            files::delete(&path, recursive, || shared.fence.admit_change(epoch))
        }
        Body::Pause {} => {
            drop(admitted);
            pause::pause(shared, epoch)
        }
        Body::Resume {} => {
            drop(admitted);
            pause::resume(shared, epoch)
        }
        Body::Hold { lease_ms, changes_only } => {
            drop(admitted);
            let changes_only = changes_only.unwrap_or(false);
            let hold = Hold { connection: begun.connection, lease_ms, changes_only };
            if begun.holds {
                return pause::renew(shared, hold);
            }
            begun.upload = None;
            let held = pause::hold(shared, epoch, hold)?;
            begun.holds = true;
            Ok(held)
        }
        Body::LetGo {} => {
            drop(admitted);
            begun.let_go(shared);
            Ok(Reply::Done {})
        }
    }
}

/// Connects to a port of the sandbox, for a caller the fence admits.
pub fn connect(shared: &Shared, epoch: u64, port: u16) -> Result<TcpStream, Fault> {
    drop(shared.fence.admit(epoch)?);
    cut_before(shared, epoch);
    // Not under the fence: the listening command may keep us waiting, and a new owner must not wait for that.
    let at = |address: IpAddr| TcpStream::connect_timeout(&SocketAddr::new(address, port), CONNECT_MAX);
    let connected = at(Ipv4Addr::LOCALHOST.into()).or_else(|_| at(Ipv6Addr::LOCALHOST.into()));
    drop(shared.fence.admit(epoch)?);
    let refused = |error: std::io::Error| Fault {
        code: FaultCode::NotFound,
        message: format!("nothing listens on port {port} of the sandbox"),
        errno: error.raw_os_error(),
    };
    connected.map_err(refused)
}

/// Ties an exec that is about to be started, or the sandbox, to a connection, for a caller the fence admits.
pub fn tie(shared: &Shared, target: Target, stream: &UnixStream) -> Result<(), Fault> {
    let _admitted = shared.fence.admit(target.epoch)?;
    cut_before(shared, target.epoch);
    tie_admitted(shared, target, stream)
}

/// Ties for a caller the fence has admitted and still holds off newer owners for.
fn tie_admitted(shared: &Shared, target: Target, stream: &UnixStream) -> Result<(), Fault> {
    let unshared = |error: std::io::Error| Fault {
        code: FaultCode::Internal,
        message: format!("could not keep the connection: {error}"),
        errno: error.raw_os_error(),
    };
    let stream = stream.try_clone().map_err(unshared)?;
    let exec = target.exec.clone();
    let tie = |started: bool| {
        let already = if started { Already::Started } else { Already::NotStarted };
        shared.ties.tie(target, already, stream, |stream| shared.watch_tie(stream).map_err(unshared))
    };
    match exec {
        // No start can come between the look and the tie: another client's untied exec would otherwise end with us.
        Some(exec) => shared.execs.with_start_known(&exec, tie),
        None => tie(false),
    }
}

fn status(shared: &Shared, state: &FenceState) -> Status {
    let (execs, spool) = shared.execs.load();
    let running = execs + shared.execs.background();
    Status {
        epoch: state.epoch(),
        running: running as u64,
        idle_ms: if running > 0 { 0 } else { shared.usage.idle().as_millis() as u64 },
        uptime_ms: shared.usage.uptime().as_millis() as u64,
        spool_bytes: spool as u64,
        paused: state.is_paused(),
    }
}

/// Bytes for the standard input of an exec.
struct Input {
    exec: String,
    data: Vec<u8>,
    /// They are the last.
    eof: bool,
}

/// Writes in parts, each under the fence: a pipe may stay full for ever, and a new owner must not wait for it. Gives up
/// when the pipe is full and the client has gone.
fn write_input(
    shared: &Shared,
    stream: &UnixStream,
    epoch: u64,
    Input { exec, data, eof }: &Input,
) -> Result<Reply, Fault> {
    let mut rest = &data[..];
    while !rest.is_empty() {
        let admitted = shared.fence.admit_change(epoch)?;
        let written = shared.execs.write_some(exec, rest)?;
        drop(admitted);
        if written == 0 && has_ended(stream) {
            let message = format!("the client has gone before exec `{exec}` took its input");
            return Err(Fault { code: FaultCode::Conflict, message, errno: None });
        }
        rest = &rest[written..];
    }
    if *eof {
        let _admitted = shared.fence.admit_change(epoch)?;
        shared.execs.close_input(exec)?;
    }
    Ok(Reply::Done {})
}

fn proceed(begun: &mut Begun<'_>, mut upload: Upload, data: &[u8], last: bool) -> Result<Reply, Fault> {
    upload.write(data)?;
    let path = upload.path().to_vec();
    if last {
        upload.commit()?;
    } else {
        begun.upload = Some(upload);
    }
    Ok(Reply::Written { path })
}

/// Opens a file, and keeps it open if the first piece is not all of it.
fn open(begun: &mut Begun<'_>, reading: Reading, max_bytes: u32) -> Result<Reply, Fault> {
    let (entry, data) = (reading.describe()?, reading.piece(0, max_bytes)?);
    if (data.len() as u64) < entry.size && !files::is_last(&data, max_bytes) {
        begun.reading = Some(reading);
    }
    Ok(Reply::Opened { entry, data })
}

fn list(begun: &mut Begun<'_>) -> Result<Reply, Fault> {
    let walk = begun.walk.as_mut().ok_or_else(|| files::out_of_turn("no listing was begun"))?;
    let (entries, more) = walk.page()?;
    if !more {
        begun.walk = None;
    }
    Ok(Reply::Entries { entries, more })
}

/// Ends what earlier owners have open: connections to ports, ties and attendances.
pub fn cut_before(shared: &Shared, epoch: u64) {
    shared.tunnels.cut_before(epoch);
    shared.ties.untie_before(epoch);
    if shared.execs.dismiss_before(epoch) {
        shared.wake();
    }
}

fn wait(wait_ms: u64) -> Duration {
    Duration::from_millis(wait_ms).min(WAIT_MAX)
}
