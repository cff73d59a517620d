//! Forwards ports of a sandbox to the local loopback interface, for as long as this process lives.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use coracle::{Error, Kind, Result, SandboxId};
use coracle_engine::{Caller, Engine};

use super::args::Ports;
use super::stderr;

/// Connections at once; each costs a thread here and a connection to the guest.
const CONNECTIONS_MAX: usize = 128;

/// A bound local port that does not accept connections yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    pub address: SocketAddr,
    pub inside: u16,
}

/// The target of connections.
#[derive(Debug)]
pub struct Route {
    pub engine: Engine,
    pub caller: Caller,
    pub sandbox: SandboxId,
}

impl Bound {
    /// Binds the requested port, else the same number as inside, else any, and tells which.
    pub fn to(ports: Ports) -> Result<Self> {
        let at = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = match ports.local {
            Some(port) => at(port).map_err(|error| {
                Error::new(Kind::NotAvailable, format!("could not listen on port {port}"))
                    .hint("name another port of this machine: something else listens there")
                    .caused_by(error)
            })?,
            None => at(ports.inside).or_else(|_| at(0)).map_err(unusable)?,
        };
        let address = listener.local_addr().map_err(unusable)?;
        if ports.local.is_none() && address.port() != ports.inside {
            let inside = ports.inside;
            stderr::note(&format!(
                "port {inside} cannot be used on this machine, so `{address}` leads to the sandbox's port {inside}"
            ));
        }
        Ok(Self { listener, address, inside: ports.inside })
    }

    /// Forwards connections to the sandbox on a thread that ends with the process. Errors that concern more than one
    /// connection are sent to `ended`.
    pub fn lead_to(self, route: Route, ended: Sender<Error>) {
        let route = Arc::new((route, AtomicUsize::new(0)));
        std::thread::spawn(move || self.accept(&route, &ended));
    }

    fn accept(&self, route: &Arc<(Route, AtomicUsize)>, ended: &Sender<Error>) {
        for local in self.listener.incoming().flatten() {
            if route.1.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                route.1.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (route, ended, port) = (route.clone(), ended.clone(), self.inside);
            std::thread::spawn(move || {
                lead(&route.0, port, &local, &ended);
                route.1.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }
}

/// Forwards one connection. A port where nothing listens yet is no reason to end; a sandbox that is gone is.
fn lead(route: &Route, port: u16, local: &TcpStream, ended: &Sender<Error>) {
    match route.engine.entry().forward(&route.caller, &route.sandbox, port, local) {
        Ok(()) => {}
        Err(error) if error.details.contains_key("port") => stderr::warning(&error.chain()),
        // The other thread ends the process; if it has started to, the error is printed already.
        Err(error) => drop(ended.send(error)),
    }
}

/// Refuses ports where this process ends at once: nothing would listen on them any more.
pub fn expect_none(ports: &[Ports]) -> Result<()> {
    let Some(Ports { inside, local }) = ports.first() else { return Ok(()) };
    let local = local.unwrap_or(*inside);
    Err(Error::new(Kind::Invalid, "a port is open only as long as the call that opened it")
        .hint(format!("leave `-p` out, and write `coracle forward SBX {local}:{inside}` while you need it"))
        .detail("field", "--publish"))
}

fn unusable(error: std::io::Error) -> Error {
    Error::internal("could not listen on the loopback interface", error)
}
