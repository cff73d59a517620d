//! The keeper: holds the network of one sandbox, from outside, for as long as its guest lives.
//!
//! It parks connections at the guest. Each one the guest takes belongs to one client, which the keeper serves on a
//! thread of its own. When the keeper dies, so does every connection: the guest has no other way out for a client.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_core::network::listener::Listener;
use coracle_core::network::{Caps, Host, Network};
use coracle_core::{Clock, Error, Result};

use crate::client::Client;
use crate::denials::Denials;
use crate::head::Authority;
use crate::scope::Scope;
use crate::weak::{self, Wall};
use crate::{control, directory as place};

/// Connections parked at the guest: as many clients may come at the same moment without waiting for the keeper.
const PARKED: usize = 6;
/// Workers beyond the connections a sandbox may have: they tell further clients that there are too many.
const SPARE: usize = 8;
/// Between attempts to reach a guest that lives but does not let us in.
const PAUSE: Duration = Duration::from_millis(100);
/// Looking a name up needs the most stack.
const STACK: usize = 256 << 10;

/// What the keeper runs as: a process that does nothing else, or a thread of one that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    Process,
    Thread,
}

/// What a keeper knows of its sandbox.
pub struct Terms {
    /// The addresses in the sandbox that lead outside.
    pub listeners: Vec<Listener>,
    /// What the sandbox may reach now.
    pub network: Network,
    pub caps: Caps,
    pub clock: Arc<dyn Clock>,
    pub guest: Arc<dyn Guest>,
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms").field("network", &self.network).finish_non_exhaustive()
    }
}

/// The port through which a keeper reaches the guest of its sandbox.
pub trait Guest: fmt::Debug + Send + Sync {
    /// Opens a connection. Returns [`Lost::Guest`] only if it is certain that the guest is gone.
    fn connect(&self) -> Result<UnixStream, Lost>;

    /// Sends the greeting on a connection.
    fn greet(&self, stream: UnixStream) -> Result<Parked, Lost>;
}

/// A connection the guest has accepted. Calling it waits until the guest joins a client to it, however long that
/// takes; shutting the connection down ends the wait.
pub type Parked = Box<dyn FnOnce() -> Result<Accepted, Lost>>;

/// A client that connected to one of the sandbox's addresses that lead outside.
#[derive(Debug)]
pub struct Accepted {
    /// The number of that address.
    pub listener: u32,
    pub stream: UnixStream,
    /// Bytes that have come from the client already.
    pub rest: Vec<u8>,
}

/// Why waiting for a client failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The guest is gone, and the keeper has nothing left to do.
    Guest,
    /// This connection failed; another may work.
    Connection,
}

#[derive(Debug)]
struct Keeping {
    guest: Arc<dyn Guest>,
    listeners: Vec<Listener>,
    scope: Scope,
    posts: Mutex<Posts>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Posts {
    workers: usize,
    /// Connections at the guest that have no client yet, by the number of the worker that waits on them.
    parked: Vec<(u64, UnixStream)>,
    waiting: usize,
    last: u64,
    /// The guest has let us in once.
    ready: bool,
    over: bool,
}

/// Keeps the network of a sandbox until its guest is gone or a caller ends the keeper. Calls `ready` when it serves
/// clients. Returns at once if another keeper holds the lock.
///
/// Calls `terms` under the lock: if the network is narrowed before, `terms` reads it narrowed; if later, there is a
/// keeper to tell.
pub fn keep(
    directory: &Path,
    body: Body,
    terms: impl FnOnce() -> Result<Terms>,
    ready: impl FnOnce(),
) -> Result<()> {
    let Some(_lock) = lock(directory, body)? else { return Ok(()) };
    let Terms { listeners, network, caps, clock, guest } = terms()?;
    let listener = control::listen(directory).map_err(unusable)?;
    let keeping = Arc::new(Keeping {
        guest,
        listeners,
        scope: Scope::new(network, caps, Denials::open(directory, clock)),
        posts: Mutex::default(),
        changed: Condvar::new(),
    });
    let controlled = keeping.clone();
    spawn(move || control::serve(&listener, &*controlled)).map_err(unusable)?;
    for _ in 0..PARKED {
        keeping.hire();
    }
    keeping.await_state(|posts| posts.ready || posts.over);
    ready();
    keeping.await_state(|posts| posts.over);
    keeping.scope.narrow(Network::None);
    // The control thread waits for the next question. Wake it, or a process that goes on would keep it waiting for
    // ever.
    let _ = control::end(directory);
    Ok(())
}

impl control::KeeperControl for Keeping {
    /// Takes the smaller of the requested and the current network.
    fn hold(&self, network: Network) -> bool {
        self.scope.narrow(network.clone()) || self.scope.is_within(&network)
    }

    fn end(&self) {
        let mut posts = self.posts();
        posts.over = true;
        for (_, stream) in &posts.parked {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(posts);
        self.changed.notify_all();
    }

    fn is_over(&self) -> bool {
        self.posts().over
    }
}

impl Keeping {
    /// Starts another worker, unless enough are waiting.
    fn hire(self: &Arc<Self>) {
        let mut posts = self.posts();
        if posts.over
            || posts.waiting >= PARKED
            || posts.workers >= self.scope.caps.connections + PARKED + SPARE && !weak::off(Wall::EgressCaps)
        {
            return;
        }
        posts.workers += 1;
        posts.waiting += 1;
        drop(posts);
        let keeping = self.clone();
        if spawn(move || keeping.work()).is_err() {
            let mut posts = self.posts();
            posts.workers -= 1;
            posts.waiting -= 1;
        }
    }

    /// Waits for a client and serves it, again and again while too few workers wait.
    fn work(self: &Arc<Self>) {
        loop {
            let accepted = self.park();
            self.posts().waiting -= 1;
            match accepted {
                Ok(accepted) => {
                    self.hire();
                    self.serve(accepted);
                }
                Err(Lost::Guest) => control::KeeperControl::end(&**self),
                Err(Lost::Connection) => std::thread::sleep(PAUSE),
            }
            let mut posts = self.posts();
            if posts.over || posts.waiting >= PARKED {
                posts.workers -= 1;
                return;
            }
            posts.waiting += 1;
        }
    }

    /// Parks a connection at the guest and waits for a client.
    fn park(&self) -> Result<Accepted, Lost> {
        let stream = self.guest.connect()?;
        let watched = stream.try_clone().map_err(|_| Lost::Connection)?;
        let parked = self.guest.greet(stream);
        let number = self.note(watched)?;
        let accepted = parked.and_then(|wait| wait());
        self.posts().parked.retain(|(own, _)| *own != number);
        accepted
    }

    fn note(&self, stream: UnixStream) -> Result<u64, Lost> {
        let mut posts = self.posts();
        if posts.over {
            return Err(Lost::Guest);
        }
        posts.last += 1;
        let number = posts.last;
        posts.parked.push((number, stream));
        posts.ready = true;
        drop(posts);
        self.changed.notify_all();
        Ok(number)
    }

    fn serve(&self, accepted: Accepted) {
        let listener = self.listeners.get(accepted.listener as usize);
        let client = Client { scope: &self.scope, stream: accepted.stream, seen: accepted.rest };
        let Some(Listener { port, host, .. }) = listener else { return };
        let authority = host.as_ref().map(|name| Authority { host: Host::Name(name.clone()), port: *port });
        let Some(_place) = self.scope.enter() else { return client.turn_away(authority.as_ref()) };
        // The client already knows how it ended, and a refusal is in the log.
        let _ = match &authority {
            Some(authority) => client.serve_host(authority),
            None => client.serve_proxy(),
        };
    }

    fn await_state(&self, come: impl Fn(&Posts) -> bool) {
        let mut posts = self.posts();
        while !come(&posts) {
            posts = self.changed.wait(posts).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn posts(&self) -> MutexGuard<'_, Posts> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the lock on this sandbox's network; `None` if another keeper has it.
fn lock(directory: &Path, body: Body) -> Result<Option<File>> {
    let file = place::open_lock(directory).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
        Err(std::fs::TryLockError::Error(error)) => return Err(unusable(error)),
    }
    // Only a keeper that is a process of its own may be killed as one.
    let pid = match body {
        Body::Process => std::process::id(),
        Body::Thread => 0,
    };
    file.set_len(0).and_then(|()| (&file).write_all(pid.to_string().as_bytes())).map_err(unusable)?;
    Ok(Some(file))
}

fn spawn(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().stack_size(STACK).spawn(work).map(drop)
}

fn unusable(error: std::io::Error) -> Error {
    Error::internal("could not hold the network of a sandbox", error)
}
