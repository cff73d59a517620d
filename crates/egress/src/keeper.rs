//! The keeper: holds the network of one sandbox, from outside, for as long as its guest is there.
//!
//! It parks connections at the guest. Each that is taken is one client's, served on a thread of its own. When the keeper
//! dies, so does every connection: the guest has nobody else to give a client to.

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

/// Connections that wait at the guest: as many as may come at the same moment without waiting for us.
const PARKED: usize = 6;
/// Beyond the connections a sandbox may have: who comes then is told that it is one too many.
const SPARE: usize = 8;
/// Between attempts to reach a guest that lives and does not let us in.
const PAUSE: Duration = Duration::from_millis(100);
/// Looking a name up takes the most of it.
const STACK: usize = 256 << 10;

/// Who keeps: a process that does nothing else, or a thread of one that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    Process,
    Thread,
}

/// What a keeper is told of its sandbox.
pub struct Terms {
    /// The places in the sandbox that lead outside.
    pub listeners: Vec<Listener>,
    /// What it may reach now.
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

/// The port by which a keeper reaches the guest of its sandbox.
pub trait Guest: fmt::Debug + Send + Sync {
    /// Opens a connection. [`Lost::Guest`] only where it is certain that there is no guest any more.
    fn connect(&self) -> Result<UnixStream, Lost>;

    /// Introduces itself on a connection.
    fn greet(&self, stream: UnixStream) -> Result<Parked, Lost>;
}

/// A connection the guest has let in. Calling it waits until a client of the sandbox is joined to it, however long that
/// takes; shutting the connection down ends the wait.
pub type Parked = Box<dyn FnOnce() -> Result<Accepted, Lost>>;

/// A client that connected to one of the places in a sandbox that lead outside.
#[derive(Debug)]
pub struct Accepted {
    /// Which of the places it was.
    pub listener: u32,
    pub stream: UnixStream,
    /// What has come from it already.
    pub rest: Vec<u8>,
}

/// Why nobody was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The guest is gone, and the keeper has nothing left to do.
    Guest,
    /// This connection did not work; another may.
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
    /// Connections at the guest that nobody has taken yet, by the number of whoever waits on them.
    parked: Vec<(u64, UnixStream)>,
    waiting: usize,
    last: u64,
    /// The guest let us in once.
    ready: bool,
    over: bool,
}

/// Keeps the network of a sandbox until its guest is gone or somebody ends it. Calls `ready` when clients are served.
/// Returns at once if somebody else keeps it.
///
/// `terms` is called when the lock is held: a network that is narrowed before is read narrowed, and one that is narrowed
/// later finds a keeper to tell.
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
    // Whoever answers questions waits for the next one, and a process that goes on must not keep it waiting for ever.
    let _ = control::end(directory);
    Ok(())
}

impl control::KeeperControl for Keeping {
    /// Takes the smaller of what is asked for and what there is.
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
    /// Starts another worker, unless enough wait already.
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

    /// Waits for a client, serves it, and waits for the next while too few wait.
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

    /// Waits at the guest until a client comes.
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
        // How it ended was told to the client and, if it was refused, written down.
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

/// Takes the right to keep this sandbox's network; nothing if somebody has it.
fn lock(directory: &Path, body: Body) -> Result<Option<File>> {
    let file = place::open_lock(directory).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
        Err(std::fs::TryLockError::Error(error)) => return Err(unusable(error)),
    }
    // Only one who is a process of its own may be ended as one.
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
