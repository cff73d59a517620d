//! A guest in memory. It speaks the wire protocol as strictly as the real one and interprets a handful of commands.

mod execs;
mod files;
mod program;
mod serve;
mod ties;

use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use coracle_wire::{Fault, FaultCode, Reply, encode};

use coracle_core::record::Secret;
use execs::Execs;
pub use files::Tree;
use ties::Ties;

/// The kernel's errno values that the fake answers with.
mod errno {
    pub const ENOENT: i32 = 2;
    pub const EEXIST: i32 = 17;
    pub const EXDEV: i32 = 18;
    pub const ENOTDIR: i32 = 20;
    pub const EISDIR: i32 = 21;
    pub const EPIPE: i32 = 32;
}

type Answer<T> = Result<T, Fault>;

/// One fake guest. Clones are the same guest.
#[derive(Debug, Clone)]
pub struct Guest(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    secret: Secret,
    boot: u64,
    env: Vec<(Vec<u8>, Vec<u8>)>,
    born: Instant,
    state: Mutex<State>,
    /// Wakes threads that wait for a change of `state`.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The highest epoch seen.
    epoch: u64,
    paused: bool,
    /// The connection that holds the sandbox, and until when.
    held: Option<(u64, Option<Instant>)>,
    /// How many requests wait for the hold to end.
    waiting: usize,
    /// The number of the next connection.
    serial: u64,
    dead: bool,
    execs: Execs,
    ties: Ties,
    files: Tree,
    /// The guest's ends of connections, closed when it dies.
    connections: Vec<UnixStream>,
    /// Connections that wait for network clients.
    parked: VecDeque<UnixStream>,
}

impl State {
    /// Returns the holder, unless its time is over.
    fn holder(&mut self) -> Option<(u64, Option<Instant>)> {
        self.held = self.held.filter(|(_, until)| until.is_none_or(|until| until > Instant::now()));
        self.held
    }
}

impl Guest {
    pub fn boot(secret: Secret, epoch: u64, boot: u64, env: Vec<(Vec<u8>, Vec<u8>)>, files: Tree) -> Self {
        let state = State {
            epoch,
            paused: false,
            held: None,
            waiting: 0,
            serial: 0,
            dead: false,
            execs: Execs::default(),
            ties: Ties::default(),
            files,
            connections: Vec::new(),
            parked: VecDeque::new(),
        };
        let state = Mutex::new(state);
        Self(Arc::new(Shared { secret, boot, env, born: Instant::now(), state, changed: Condvar::new() }))
    }

    /// Returns the host's end of a new connection, or `None` if the guest is dead.
    pub fn connect(&self) -> Option<UnixStream> {
        let (host, guest) = UnixStream::pair().expect("the kernel gives a socket pair");
        let mut state = self.state();
        if state.dead {
            return None;
        }
        state.connections.push(guest.try_clone().expect("a stream can be cloned"));
        drop(state);
        let serving = self.clone();
        std::thread::spawn(move || serve::serve(&serving, guest));
        Some(host)
    }

    fn park(&self, connection: UnixStream) {
        self.state().parked.push_back(connection);
        self.0.changed.notify_all();
    }

    /// Connects to a listener, as a command would; waits until the host takes the connection.
    pub fn reach_out(&self, listener: u32) -> UnixStream {
        let frame = encode(&Reply::Accepted { listener }).expect("a small frame is a frame");
        let mut state = self.state();
        loop {
            match state.parked.pop_front() {
                // The host may have left a parked connection; then the next is taken.
                Some(client) if (&client).write_all(&frame).is_ok() => return client,
                Some(_) => {}
                None => state = self.wait(state, None),
            }
        }
    }

    /// Ends the guest and everything in it at once; connections break.
    pub fn die(&self) {
        let mut state = self.state();
        state.dead = true;
        for connection in state.connections.drain(..) {
            // The other end may be gone already.
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
        drop(state);
        self.0.changed.notify_all();
    }

    pub fn is_held(&self) -> bool {
        self.state().holder().is_some()
    }

    /// Returns how many requests wait for the hold to end.
    pub fn waiting(&self) -> usize {
        self.state().waiting
    }

    /// Returns all its files as they are now.
    pub fn files(&self) -> Tree {
        self.state().files.clone()
    }

    pub fn is_alive(&self) -> bool {
        !self.state().dead
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, at most until `until`.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State>, until: Option<Instant>) -> MutexGuard<'a, State> {
        match until {
            None => self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let rest = until.saturating_duration_since(Instant::now());
                self.0.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }
}

fn fault(code: FaultCode, message: impl Into<String>) -> Fault {
    Fault { code, message: message.into(), errno: None }
}

fn file_fault(errno: i32, path: &[u8]) -> Fault {
    let message = format!("could not use `{}`", path.escape_ascii());
    Fault { code: FaultCode::File, message, errno: Some(errno) }
}
