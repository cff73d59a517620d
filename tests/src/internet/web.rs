//! The web: one server for every address of the internet, in clear text and in TLS, that remembers every request.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::request::Request;
use super::tls::Identity;
use super::wires::{FORBIDDEN, address};
use super::{Namespace, Server, Site, TICK};

/// Ports it listens on, and those where it speaks TLS.
const PLAIN: [u16; 2] = [80, 8080];
const SECURE: [u16; 2] = [443, 8443];

/// What the servers at forbidden addresses answer.
pub const CREDENTIALS: &str = "credentials-of-the-machine";

/// A request that arrived.
#[derive(Debug, Clone)]
pub struct Visit {
    /// Where it arrived.
    pub at: SocketAddr,
    /// The name the client asked for in TLS.
    pub server_name: Option<String>,
    pub request: Request,
}

/// The servers and what they remember.
#[derive(Debug)]
pub struct Web {
    shared: Arc<Shared>,
    _servers: Vec<Server>,
}

#[derive(Debug)]
struct Shared {
    visits: Mutex<Vec<Visit>>,
    /// Addresses at which another server serves TLS.
    carried: Mutex<BTreeMap<IpAddr, SocketAddr>>,
    site: Site,
    identity: Identity,
}

impl Web {
    pub fn start(outside: &Namespace) -> Self {
        let shared = Arc::new(Shared {
            visits: Mutex::default(),
            carried: Mutex::default(),
            site: Site::default(),
            identity: Identity::default(),
        });
        let plain = PLAIN.map(|port| {
            let ours = shared.clone();
            Server::start(outside, port, Arc::new(move |stream, at| ours.serve(stream, at)))
        });
        let secure = SECURE.map(|port| {
            let ours = shared.clone();
            Server::start(outside, port, Arc::new(move |stream, at| ours.serve_secure(stream, at)))
        });
        Self { shared, _servers: plain.into_iter().chain(secure).collect() }
    }

    /// Returns the certificate of the authority that vouches for the servers, in PEM.
    pub fn authority(&self) -> String {
        self.shared.identity.certificate()
    }

    /// Carries connections in TLS to an address of the internet on to a server of this machine.
    pub fn carry(&self, from: &str, to: SocketAddr) {
        self.shared.carried.lock().unwrap_or_else(PoisonError::into_inner).insert(address(from), to);
    }

    /// Has the files below a directory of the test's found at every name.
    pub fn publish(&self, root: &Path) {
        self.shared.site.publish(root);
    }

    /// Returns every request that arrived, in the order of arrival.
    pub fn visits(&self) -> Vec<Visit> {
        self.shared.visits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn clear(&self) {
        self.shared.visits.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream, at: SocketAddr) {
        let Ok(writer) = stream.try_clone() else { return };
        self.converse(BufReader::new(stream), writer, at, None);
    }

    fn serve_secure(&self, stream: TcpStream, at: SocketAddr) {
        let carried = self.carried.lock().unwrap_or_else(PoisonError::into_inner).get(&at.ip()).copied();
        if let Some(to) = carried {
            return pass_on(&stream, to);
        }
        let Some((connection, name)) = self.identity.accept(stream) else { return };
        // One end for both directions: requests are read whole before they are answered.
        let shared = std::cell::RefCell::new(connection);
        self.converse(BufReader::new(Half(&shared)), Half(&shared), at, name);
    }

    /// Answers one request after the other.
    fn converse(
        &self,
        mut reader: BufReader<impl Read>,
        mut writer: impl Write,
        at: SocketAddr,
        name: Option<String>,
    ) {
        while let Ok(Some(request)) = Request::read(&mut reader) {
            let visit = Visit { at, server_name: name.clone(), request };
            self.visits.lock().unwrap_or_else(PoisonError::into_inner).push(visit.clone());
            let on = self.answer(&visit, &mut reader, &mut writer);
            if on.is_none() || visit.request.header("connection") == Some("close") {
                return;
            }
        }
    }

    /// Answers one request; `None` if nothing can follow.
    fn answer(&self, visit: &Visit, reader: &mut impl Read, writer: &mut impl Write) -> Option<()> {
        if FORBIDDEN.iter().any(|forbidden| address(forbidden) == visit.at.ip()) {
            return reply(writer, "200 OK", CREDENTIALS.as_bytes());
        }
        let path = visit.request.target();
        let path = path
            .strip_prefix("http://")
            .and_then(|rest| rest.find('/').map(|at| &rest[at..]))
            .unwrap_or(path);
        match path.split_once('?').unwrap_or((path, "")) {
            ("/hello", _) => {
                let host = visit.request.header("host").unwrap_or_default();
                reply(writer, "200 OK", format!("hello from {host}\n").as_bytes())
            }
            ("/echo", _) => {
                reply(writer, "200 OK", &[visit.request.head.as_bytes(), &visit.request.body].concat())
            }
            ("/redirect", to) => reply(writer, &format!("302 Found\r\nLocation: {to}"), b""),
            ("/bytes", count) => reply(writer, "200 OK", &vec![b'x'; count.parse().ok()?]),
            ("/endless", _) => endless(writer),
            ("/upgrade", _) => upgrade(reader, writer),
            (path, _) => match self.site.file(path) {
                // Indexes are pages to pip only if they say so.
                Some(bytes) if path.ends_with('/') => {
                    reply(writer, "200 OK\r\nContent-Type: text/html", &bytes)
                }
                Some(bytes) => reply(writer, "200 OK", &bytes),
                None => reply(writer, "404 Not Found", b"there is nothing here\n"),
            },
        }
    }
}

fn reply(writer: &mut impl Write, line: &str, body: &[u8]) -> Option<()> {
    let head = format!("HTTP/1.1 {line}\r\nContent-Length: {}\r\n\r\n", body.len());
    writer.write_all(&[head.as_bytes(), body].concat()).and_then(|()| writer.flush()).ok()
}

/// Sends a line again and again until the client is gone.
fn endless(writer: &mut impl Write) -> Option<()> {
    writer.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").ok()?;
    while writer.write_all(b"6\r\nagain\n\r\n").and_then(|()| writer.flush()).is_ok() {
        std::thread::sleep(TICK);
    }
    None
}

/// Changes to a protocol of its own, in which everything comes back.
fn upgrade(reader: &mut impl Read, writer: &mut impl Write) -> Option<()> {
    writer
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        .ok()?;
    std::io::copy(reader, writer).ok()?;
    None
}

/// Passes bytes on in both directions until both have ended.
fn pass_on(stream: &TcpStream, to: SocketAddr) {
    let Ok(server) = TcpStream::connect(to) else { return };
    let one_way = |mut from: &TcpStream, mut to: &TcpStream| {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| one_way(stream, &server));
        one_way(&server, stream);
    });
}

/// One direction of a connection that both share.
struct Half<'a, T>(&'a std::cell::RefCell<T>);

impl<T: Read> Read for Half<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().read(buffer)
    }
}

impl<T: Write> Write for Half<'_, T> {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(buffer)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.borrow_mut().flush()
    }
}
