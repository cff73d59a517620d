//! Runs a program the host brings, such as porter, with the rights of the sandbox's commands and a connection as its
//! standard input and output.
//!
//! The program comes over the connection, because an image may have none and no file of the sandbox can be trusted to
//! be it. It lives in a sealed memory file that ends with it.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coracle_sys::rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use coracle_sys::rustix::io::Errno;
use coracle_wire::{Command, Fault, FaultCode, Reply};

use super::{Connection, request};
use crate::execs::{Brought, Patience, Watched, brought_id};
use crate::reactor::Shared;

/// The largest program. The guest pays for its memory, not the commands.
const SIZE_MAX: u64 = 32 << 20;
/// Most at once: each costs the memory of its program, and a connection.
const PROGRAMS_MAX: usize = 4;
/// How long the program may take to arrive: the host has it in memory.
const ARRIVAL: Duration = Duration::from_secs(60);
/// How long the guest looks after a program it has killed.
const ENDING: Duration = Duration::from_secs(10);
/// One wait for the end; the guest waits again.
const WAIT: Duration = Duration::from_secs(3600);

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static SERIAL: AtomicU64 = AtomicU64::new(0);

/// A place among the programs that run, until dropped.
struct Place;

impl Place {
    fn take() -> Result<Self, Fault> {
        let taken = RUNNING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |running| {
            (running < PROGRAMS_MAX).then_some(running + 1)
        });
        let full = format!("{PROGRAMS_MAX} programs of the host run in the sandbox");
        taken.map(|_| Self).map_err(|_| fault(FaultCode::Limit, full))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a caller wants to run.
pub struct Wanted {
    pub epoch: u64,
    pub size: u64,
    pub user: Option<Vec<u8>>,
}

/// Receives a program and runs it to its end. Returns `None` when the connection is used up, which it is once the host
/// was told to send the program.
pub fn run(connection: &mut Connection<'_>, shared: &Shared, wanted: &Wanted) -> Option<()> {
    let place = match admit(shared, wanted) {
        Ok(place) => place,
        Err(fault) => return connection.send(&Reply::Fault(fault)),
    };
    connection.send(&Reply::Done {})?;
    let id = brought_id(SERIAL.fetch_add(1, Ordering::Relaxed));
    let started = receive(connection, wanted.size)
        .map_err(|error| fault_of("receive the program", &error))
        .and_then(|program| start(connection, shared, wanted, &id, &program));
    if let Err(fault) = started {
        connection.send(&Reply::Fault(fault))?;
        return None;
    }
    attend(connection.stream, shared, wanted.epoch, &id);
    shared.execs.forget(&id);
    drop(place);
    None
}

fn admit(shared: &Shared, wanted: &Wanted) -> Result<Place, Fault> {
    drop(shared.fence.admit_change(wanted.epoch)?);
    request::cut_before(shared, wanted.epoch);
    if wanted.size == 0 || wanted.size > SIZE_MAX {
        return Err(fault(FaultCode::Invalid, format!("a program has at most {SIZE_MAX} bytes")));
    }
    Place::take()
}

/// Reads the program into a memory file that cannot be changed any more.
fn receive(connection: &mut Connection<'_>, size: u64) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know that a memory file may be executable, and make all so.
    let file = match memfd_create("program", flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd_create("program", flags)?,
        created => created?,
    };
    let mut file = std::fs::File::from(file);
    let begun = std::mem::take(&mut connection.decoder).into_rest();
    let stream = connection.stream;
    stream.set_read_timeout(Some(ARRIVAL))?;
    if begun.len() as u64 > size {
        return Err(io::ErrorKind::InvalidData.into());
    }
    file.write_all(&begun)?;
    let rest = size - begun.len() as u64;
    if io::copy(&mut stream.take(rest), &mut file)? != rest {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    stream.set_read_timeout(None)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Starts the program, and tells the host under the fence: what it reads next comes from the program.
fn start(
    connection: &mut Connection<'_>,
    shared: &Shared,
    wanted: &Wanted,
    id: &str,
    program: &OwnedFd,
) -> Result<(), Fault> {
    let admitted = shared.fence.admit_change(wanted.epoch)?;
    let watch = |watched: Watched, descriptor: &OwnedFd| match watched {
        Watched::Pipe(token) => shared.watch(token, descriptor),
        Watched::Report => shared.watch_report(descriptor),
    };
    let brought = Brought { program: program.as_fd(), stream: connection.stream.as_fd() };
    let command = Command { argv: vec![b"porter".to_vec()], user: wanted.user.clone(), ..Command::default() };
    shared.execs.start_brought(wanted.epoch, id, &command, brought, watch)?;
    drop(admitted);
    // It waits for its order, so nothing of its own precedes this.
    let told = connection.send(&Reply::Done {});
    shared.wake();
    told.ok_or_else(|| fault(FaultCode::Internal, "the host has gone".to_owned()))
}

/// Waits for the end of the program, and ends it when the host has gone or the sandbox has another owner.
fn attend(stream: &UnixStream, shared: &Shared, epoch: u64, id: &str) {
    loop {
        let client = shared.client(stream);
        let state = shared.execs.wait(id, Patience { epoch, wait: WAIT, client: &client });
        match state {
            Ok(state) if state.ending.is_none() => {}
            _ => return,
        }
        if client.has_gone() || shared.fence.epoch() > epoch {
            break;
        }
    }
    let until = Instant::now() + ENDING;
    while shared.execs.begin_stop(id, Some(Duration::ZERO)).is_ok() && Instant::now() < until {
        shared.wake();
        if shared.execs.has_ended_within(id, Duration::from_millis(100)) {
            return;
        }
    }
}

fn fault_of(attempted: &str, error: &io::Error) -> Fault {
    let message = format!("could not {attempted}");
    Fault { code: FaultCode::Unsupported, message, errno: error.raw_os_error() }
}

fn fault(code: FaultCode, message: String) -> Fault {
    Fault { code, message, errno: None }
}
