//! The way to a container engine on another machine: one ssh connection for all calls, with the container engine's
//! socket at its other end.
//!
//! The connection is ssh's own master, in the background. It outlives the call that made it, serves later ones, and
//! ends by itself when unused for a while; no process of ours has to live for it. Calls find it by its control
//! socket in a directory of ours. Whatever is wrong with it, the cure is a new one: it is dead (the other machine
//! went away), it hangs, or its sockets are gone. The call that makes one holds a lock, so two calls at once make
//! one connection.
//!
//! A connection may end between the check and its use. A caller that then cannot connect calls [`open`] again.

mod dir;
mod master;
mod mux;
mod remote;
mod words;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_core::{Error, Kind, Result};

use self::dir::TunnelDir;
use self::master::Master;
use self::mux::Mux;
use super::endpoint::SshPlace;

pub use self::dir::directory;

/// Several times what a container engine on the far side of the world takes for its first answer.
const FIRST_ANSWER: Duration = Duration::from_secs(10);
const PING: &[u8] = b"GET /_ping HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n";

/// Returns a local socket that leads to the container engine's on the other machine. Starts the one master
/// connection if there is none.
///
/// `runtime` is a directory for sockets, made if it is missing (see [`directory`]). A new connection has been
/// answered once before it is returned; an old one is only known to be alive on this side.
pub fn open(place: &SshPlace, ssh: &[String], runtime: &Path) -> Result<PathBuf> {
    let line = Line { place, master: Master { place, ssh }, dir: TunnelDir::of(runtime, place, ssh)? };
    if line.stands() {
        return Ok(line.dir.engine());
    }
    let _turn = line.dir.lock()?;
    // The previous holder of the lock may have made the connection we want.
    if !line.stands() {
        line.lay()?;
    }
    Ok(line.dir.engine())
}

/// Ends every connection whose sockets are in this directory, and removes the directory.
pub fn close_all(runtime: &Path) -> Result<()> {
    for dir in TunnelDir::all(runtime)? {
        let _turn = dir.lock()?;
        master::end(&dir);
        dir.remove()?;
    }
    dir::remove_empty(runtime)
}

/// One connection to one machine.
struct Line<'a> {
    place: &'a SshPlace,
    master: Master<'a>,
    dir: TunnelDir,
}

impl Line<'_> {
    fn stands(&self) -> bool {
        self.dir.tend();
        self.dir.engine().symlink_metadata().is_ok() && Mux::greet(&self.dir.control(), mux::PATIENCE).is_ok()
    }

    /// Makes the connection anew. If that fails, there is none.
    fn lay(&self) -> Result<()> {
        let remembered = self.dir.remembered();
        match self.lay_to(remembered.clone()) {
            // The container engine may have moved since we asked the other machine.
            Err(_) if self.place.socket.is_none() && remembered.is_some() => {
                self.dir.forget();
                self.lay_to(None)
            }
            result => result,
        }
    }

    fn lay_to(&self, remembered: Option<PathBuf>) -> Result<()> {
        master::end(&self.dir);
        self.dir.clear();
        let laid = self.master.start(&self.dir).and_then(|()| self.lead(remembered));
        if laid.is_err() {
            master::end(&self.dir);
            self.dir.clear();
        }
        laid
    }

    /// Forwards to the container engine's socket.
    fn lead(&self, remembered: Option<PathBuf>) -> Result<()> {
        let (socket, asked) = match self.place.socket.clone().or(remembered) {
            Some(socket) => (socket, false),
            None => (remote::ask(&self.master, &self.dir)?, true),
        };
        let mut mux =
            Mux::greet(&self.dir.control(), mux::FIRST_PATIENCE).map_err(|error| self.unusable(error))?;
        mux.forward(&self.dir.engine(), &socket).map_err(|error| self.unusable(error))?;
        self.hear(&socket)?;
        // Remember only what has led to a container engine.
        if asked { self.dir.remember(&socket) } else { Ok(()) }
    }

    /// Waits for the container engine's first answer.
    fn hear(&self, socket: &Path) -> Result<()> {
        let answer = first_words(&self.dir.engine());
        match answer.as_deref() {
            Ok(b"HTTP/1.") => Ok(()),
            Ok([]) => Err(self.not_led(socket)),
            Ok(_) => Err(words::no_engine(self.place, socket)),
            Err(_) => Err(words::silent(self.place, socket)),
        }
    }

    /// ssh gives the same message for every reason, so this asks the other machine what is there.
    fn not_led(&self, socket: &Path) -> Error {
        let words = self.dir.words();
        words::not_led(self.place, socket, &words, remote::look(&self.master, &self.dir, socket))
    }

    fn unusable(&self, error: io::Error) -> Error {
        Error::new(Kind::NotAvailable, format!("could not use the ssh connection to `{}`", self.place))
            .hint("coracle needs OpenSSH 6.7 or newer; `coracle config` shows the program as `engines.ssh`")
            .caused_by(error)
    }
}

/// Asks the other end for a sign of life; an empty answer means that the connection was closed.
fn first_words(engine: &Path) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(engine)?;
    stream.set_read_timeout(Some(FIRST_ANSWER))?;
    stream.set_write_timeout(Some(FIRST_ANSWER))?;
    let mut answer = Vec::new();
    // If nothing listens at the other end, ssh closes the connection, perhaps before we have written.
    let heard = stream.write_all(PING).and_then(|()| stream.take(7).read_to_end(&mut answer));
    match heard {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(error)
        }
        Err(_) | Ok(_) => Ok(answer),
    }
}
