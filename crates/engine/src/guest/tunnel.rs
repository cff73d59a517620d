//! Connections that carry something else than requests: a client of the sandbox's network, a port of the sandbox, or
//! nothing, because something is tied to them.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_egress::keeper::Accepted;
use coracle_wire::{Body, Reply};

use super::execs::millis;
use super::{Failure, Guest};

/// A guest without a client says nothing for as long as it likes.
const WAIT: Duration = Duration::from_secs(3600);

impl Guest {
    /// Waits until a client connects, and becomes its connection.
    pub fn accept(mut self) -> Result<Accepted, Failure> {
        self.queue(Body::Accept {})?;
        self.flush()?;
        let listener = loop {
            match self.answer(WAIT) {
                Ok(Reply::Accepted { listener }) => break listener,
                Ok(_) => return Err(Failure::Unexpected),
                Err(Failure::Silent) => {}
                Err(failure) => return Err(failure),
            }
        };
        let (stream, rest) = self.link.into_stream()?;
        Ok(Accepted { listener, stream, rest })
    }

    /// Ties an exec that is about to be started, or else the sandbox, to this connection: it ends with the connection,
    /// unless it is tied again within `grace`.
    pub fn tie(&mut self, exec: Option<&str>, grace: Duration) -> Result<(), Failure> {
        let body = Body::Tie { exec: exec.map(str::to_owned), grace_ms: millis(grace) };
        match self.ask(body, Duration::ZERO)? {
            Reply::Done {} => Ok(()),
            _ => Err(Failure::Unexpected),
        }
    }

    /// Connects to a port of the sandbox, and becomes that connection; the second is what has come from it already.
    pub fn join(mut self, port: u16) -> Result<(UnixStream, Vec<u8>), Failure> {
        match self.ask(Body::Connect { port }, Duration::ZERO)? {
            Reply::Done {} => self.link.into_stream(),
            _ => Err(Failure::Unexpected),
        }
    }
}
