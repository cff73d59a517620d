//! Checks that the guest still holds the sandbox, from the process that replaces its root. The caller may have been
//! stopped for so long that its hold has lapsed and commands run again.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_wire::{Body, Decoder, Renewal, Reply, Request};

use super::Failure;

/// The connection that holds the sandbox; no other process uses it meanwhile. Absent where a hold lasts as long as
/// its connection is open: an open connection is then enough.
#[derive(Debug)]
pub struct Hold(Option<(UnixStream, Renewal)>);

impl Hold {
    /// Takes the connection this process was started with.
    pub fn take(renewal: Option<Renewal>) -> Result<Self, Failure> {
        let Some(renewal) = renewal else { return Ok(Self(None)) };
        let stream = coracle_sys::inherited::take(coracle_sys::enter::HELD)
            .map_err(Failure::at("find what holds the sandbox"))?;
        Ok(Self(Some((stream.into(), renewal))))
    }

    /// Has the guest hold the sandbox for this long from now. Fails if the hold had lapsed.
    pub fn renew(&mut self, lease: Duration) -> Result<(), Failure> {
        let Some((stream, renewal)) = &mut self.0 else { return Ok(()) };
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let body = Body::Hold { lease_ms: Some(lease_ms), changes_only: None };
        let reply = ask(stream, &Request { epoch: renewal.epoch, body, acting: None });
        match reply.map_err(Failure::at("ask whether the sandbox is still held"))? {
            Reply::Held { .. } => Ok(()),
            Reply::Fault(fault) => Err(Failure::at("keep the sandbox held")(io::Error::other(fault.message))),
            _ => Err(Failure::at("keep the sandbox held")(io::ErrorKind::InvalidData)),
        }
    }

    /// Restores the previous lease once this process no longer depends on the hold.
    pub fn go_back(mut self) {
        if let Some((_, renewal)) = &self.0 {
            let lease = Duration::from_millis(renewal.lease_ms);
            // If this fails, the hold only lasts longer than needed.
            let _ = self.renew(lease);
        }
    }
}

fn ask(stream: &mut UnixStream, request: &Request) -> io::Result<Reply> {
    stream.write_all(&coracle_wire::encode(request).map_err(io::Error::other)?)?;
    let mut decoder = Decoder::default();
    let mut buffer = [0; 4096];
    loop {
        if let Some(payload) = decoder.next_payload().map_err(io::Error::other)? {
            return coracle_wire::decode(payload).map_err(io::Error::other);
        }
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => decoder.push(&buffer[..length]),
        }
    }
}
