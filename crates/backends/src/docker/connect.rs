//! Streams to a guest: through its socket if container engine and host share files, otherwise through a program of
//! ours that the container engine starts in the container.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;

use bollard::container::LogOutput;
use bollard::errors::Error as Refusal;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use coracle_core::backend::Placement;
use coracle_core::{Error, Kind, Result, SandboxId};
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::container::PROGRAM;
use super::settled::settled;
use super::{Docker, failure, patience};
use crate::place;

/// The guest's user, which no command can be.
const GUEST_ID: u32 = 65_535;
/// The program's first byte, and how much it carries at once.
const JOINED: u8 = 1;
const PIECE: usize = 64 << 10;

/// How we reach a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    Socket,
    Program,
}

impl Reached {
    pub fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Program => "program",
        }
    }

    fn of(placement: &Placement) -> Self {
        match placement.0["by"].as_str() {
            Some("socket") => Self::Socket,
            Some(_) | None => Self::Program,
        }
    }
}

/// Tells whether the container engine may share our directories. Only root can enter where the guest keeps its
/// socket.
pub fn shares_files(docker: &Docker) -> bool {
    docker.client.is_local() && coracle_sys::rustix::process::geteuid().is_root()
}

/// Finds out how to reach a guest that has come up.
pub fn choose(docker: &Docker, sandbox: &SandboxId) -> Reached {
    if !shares_files(docker) || docker.home.take_socket(sandbox).is_err() {
        return Reached::Program;
    }
    match by_socket(docker, sandbox) {
        Ok(_) => Reached::Socket,
        // The two sides have different users, as when the container engine remaps them. The program inside needs
        // the socket.
        Err(_) => {
            docker.home.return_socket(sandbox);
            Reached::Program
        }
    }
}

/// Opens a stream to the guest.
pub fn connect(docker: &Docker, sandbox: &SandboxId, placement: &Placement) -> Result<UnixStream> {
    match Reached::of(placement) {
        Reached::Socket => by_socket(docker, sandbox).map_err(|error| {
            let kind = if place::proves_death(&error) { Kind::NotFound } else { Kind::NotAvailable };
            unreached(kind, sandbox).caused_by(error)
        }),
        Reached::Program => {
            docker.expect_here(sandbox)?;
            by_program(docker, sandbox, placement)
        }
    }
}

/// Tells whether the container engine carries the streams to this guest: they end with it.
pub fn is_carried(placement: &Placement) -> bool {
    Reached::of(placement) == Reached::Program
}

fn unreached(kind: Kind, sandbox: &SandboxId) -> Error {
    Error::new(kind, format!("could not reach the guest of sandbox `{sandbox}`"))
}

/// Checks which user listens on the socket before the caller sends the secret.
fn by_socket(docker: &Docker, sandbox: &SandboxId) -> io::Result<UnixStream> {
    let stream = docker.home.connect(sandbox)?;
    let peer = coracle_sys::rustix::net::sockopt::socket_peercred(stream.as_fd())?;
    match peer.uid.as_raw() == GUEST_ID {
        true => Ok(stream),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "a process other than the guest listens there",
        )),
    }
}

type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, Refusal>> + Send>>;
type Input = Pin<Box<dyn AsyncWrite + Send>>;

/// Starts our program by the id of the container: another container may have its name by now.
fn by_program(docker: &Docker, sandbox: &SandboxId, placement: &Placement) -> Result<UnixStream> {
    let container = placement.0["container"].as_str().ok_or_else(|| unreached(Kind::NotFound, sandbox))?;
    let started = docker.client.ask_within(patience::JOIN, "reach a guest", |engine| async move {
        let options = CreateExecOptions {
            cmd: Some(vec![PROGRAM, "connect"]),
            user: Some("0:0"),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            ..CreateExecOptions::default()
        };
        let exec = match engine.create_exec(container, options).await {
            Err(error) if failure::is_about_pause(&error) => return Err(error),
            // The container is gone, or stopped.
            Err(error) if failure::is_status(&error, 404) || failure::is_status(&error, 409) => {
                return Ok(None);
            }
            made => made?,
        };
        let options = StartExecOptions { output_capacity: Some(PIECE), ..StartExecOptions::default() };
        match engine.start_exec(&exec.id, Some(options)).await? {
            StartExecResults::Attached { mut output, input } => {
                Ok(joined(&mut output).await?.map(|rest| (rest, output, input)))
            }
            StartExecResults::Detached => Ok(None),
        }
    });
    let (rest, output, input) = match started {
        Ok(Some(streams)) => streams,
        Ok(None) => return Err(unjoined(docker, sandbox, placement)),
        Err(error) if error.kind == Kind::NotFound => return Err(unjoined(docker, sandbox, placement)),
        Err(error) => return Err(error),
    };
    carry(docker, rest, output, input).map_err(|error| unreached(Kind::Internal, sandbox).caused_by(error))
}

/// Returns when a container was last started, as the container engine writes it; `None` if it does not run.
pub fn started(docker: &Docker, container: &str) -> Result<Option<String>> {
    let state = docker.client.ask_within(patience::ANSWER, "look at a container", |engine| async move {
        match settled(|| engine.inspect_container(container, None)).await {
            Err(error) if failure::is_status(&error, 404) => Ok(None),
            found => Ok(found?.state),
        }
    })?;
    let running = state.filter(|state| state.running.unwrap_or(true));
    Ok(running.map(|state| state.started_at.unwrap_or_default()))
}

/// Says why our program could not join the guest. There may have been no process or no memory left in the container
/// for it. Only if the container engine says that nothing runs there, or that it was started anew, is the guest's
/// death proved.
fn unjoined(docker: &Docker, sandbox: &SandboxId, placement: &Placement) -> Error {
    let container = placement.0["container"].as_str().unwrap_or_default();
    let same = |now: &str| placement.0["started"].as_str().is_none_or(|then| then == now);
    match started(docker, container) {
        Ok(Some(now)) if same(&now) => unreached(Kind::NotAvailable, sandbox)
            .hint("its container runs; the sandbox may have no processes or memory left: stop some commands"),
        Ok(_) => unreached(Kind::NotFound, sandbox),
        Err(error) => error,
    }
}

/// Waits until the program has joined its streams to the guest's. Returns the bytes after its first byte, or `None`
/// if it ended instead.
async fn joined(output: &mut Output) -> Result<Option<Vec<u8>>, Refusal> {
    while let Some(piece) = output.next().await {
        if let LogOutput::StdOut { message } = piece?
            && let [JOINED, rest @ ..] = &message[..]
        {
            return Ok(Some(rest.to_vec()));
        }
    }
    Ok(None)
}

/// Joins the program's streams to a socket, and returns the socket's other end.
fn carry(docker: &Docker, first: Vec<u8>, mut output: Output, mut input: Input) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    theirs.set_nonblocking(true)?;
    let runtime = docker.client.runtime().map_err(io::Error::other)?;
    let _entered = runtime.enter();
    let (mut reader, mut writer) = tokio::net::UnixStream::from_std(theirs)?.into_split();
    runtime.spawn(async move {
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = reader.read(&mut piece).await {
            if input.write_all(&piece[..length]).await.is_err() || input.flush().await.is_err() {
                return;
            }
        }
        let _ = input.shutdown().await;
    });
    runtime.spawn(async move {
        if writer.write_all(&first).await.is_err() {
            return;
        }
        while let Some(Ok(piece)) = output.next().await {
            if let LogOutput::StdOut { message } = piece
                && writer.write_all(&message).await.is_err()
            {
                return;
            }
        }
    });
    Ok(ours)
}
