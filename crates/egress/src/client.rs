//! Serves one client in the sandbox: reads what it wants, checks that it may, then carries its bytes.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use coracle_core::network::{Host, Reason, Speech};

use crate::body::Measure;
use crate::carry::{Ends, Outward, carry};
use crate::client_protocol::{ClientProtocol, respond};
use crate::dial::{Dialled, Refusal, dial};
use crate::head::{self, Authority, Head, Resemblance, Target};
use crate::scope::Scope;
use crate::socks::{self, Answer};
use crate::tls::{self, Hello};
use crate::weak::{self, Wall};

/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the rest of a first line may take on a port where any protocol is allowed: a program that sends half a
/// line and waits for an answer speaks another protocol.
const PAUSE: Duration = Duration::from_millis(300);
const PIECE: usize = 16 << 10;

/// A client and the bytes it has sent so far.
#[derive(Debug)]
pub struct Client<'a> {
    pub scope: &'a Scope,
    pub stream: UnixStream,
    pub seen: Vec<u8>,
}

/// Why the proxy stops serving a client. The proxy has told the client, as far as its protocol can express it.
#[derive(Debug)]
pub enum Ended {
    Refused,
    Gone,
}

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

type Served = Result<(), Ended>;

impl<'a> Client<'a> {
    /// Serves a client of the proxy's own address.
    pub fn serve_proxy(mut self) -> Served {
        if self.seen.is_empty() {
            self.fill(PATIENCE)?;
        }
        match self.seen.first() {
            Some(&socks::VERSION) => self.serve_socks(),
            _ => self.serve_http(),
        }
    }

    /// Serves a client of an address that stands for a host.
    pub fn serve_host(self, authority: &Authority) -> Served {
        let speech = self.admit(authority, ClientProtocol::Other)?;
        let dialled = self.dial(authority, speech, ClientProtocol::Other)?;
        self.through(authority, speech, &dialled)
    }

    /// Refuses a client because there are too many.
    pub fn turn_away(self, authority: Option<&Authority>) {
        let (host, port) =
            authority.map_or(("*".to_owned(), 0), |known| (known.host.to_string(), known.port));
        let protocol = if authority.is_none() { ClientProtocol::Http } else { ClientProtocol::Other };
        self.refuse(&host, port, Reason::Limit, protocol);
    }

    fn serve_http(mut self) -> Served {
        let (head, authority) = self.read_head(None)?;
        let speech = self.admit(&authority, ClientProtocol::Http)?;
        if let Target::Tunnel(_) = head.target {
            let dialled = self.dial(&authority, speech, ClientProtocol::Http)?;
            (&self.stream).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            return self.through(&authority, speech, &dialled);
        }
        if speech == Speech::Tls {
            return Err(self.refuse(
                &authority.host.to_string(),
                authority.port,
                Reason::Protocol,
                ClientProtocol::Http,
            ));
        }
        let dialled = self.dial(&authority, speech, ClientProtocol::Http)?;
        self.forward(&head, &authority, &dialled)
    }

    fn serve_socks(mut self) -> Served {
        let willing = self.read_socks(|bytes| Ok(socks::greeting(bytes)))?;
        if !willing {
            (&self.stream).write_all(&socks::NO_METHOD)?;
            return Err(Ended::Refused);
        }
        (&self.stream).write_all(&socks::WELCOME)?;
        let authority = self.read_socks(socks::request)?;
        let speech = self.admit(&authority, ClientProtocol::Socks)?;
        let dialled = self.dial(&authority, speech, ClientProtocol::Socks)?;
        (&self.stream).write_all(&Answer::Granted.bytes())?;
        self.through(&authority, speech, &dialled)
    }

    /// Carries a connection to a known host, once the client's first bytes name the same host.
    fn through(mut self, authority: &Authority, speech: Speech, dialled: &Dialled<'_>) -> Served {
        if self.scope.is_open() {
            return self.carry(Vec::new(), Outward::Everything, dialled);
        }
        match speech {
            Speech::Http => self.forward_next(authority, dialled),
            Speech::Tls => {
                let named = self.read_hello(authority)?;
                self.check_name(authority, named)?;
                self.carry(Vec::new(), Outward::Everything, dialled)
            }
            Speech::Anything => self.listen_first(authority, dialled),
        }
    }

    /// Serves a port where any protocol is allowed, so the server may speak first. Still looks at what the client
    /// sends: HTTP and TLS name their host.
    fn listen_first(mut self, authority: &Authority, dialled: &Dialled<'_>) -> Served {
        if !self.relay_until_heard(dialled)? {
            return self.carry(Vec::new(), Outward::Everything, dialled);
        }
        loop {
            match tls::hello(&self.seen) {
                Hello::Named(named) => {
                    // Any protocol is allowed, also TLS without a name; but the name of another host is still
                    // refused.
                    if named.is_some() {
                        self.check_name(authority, named)?;
                    }
                    return self.carry(Vec::new(), Outward::Everything, dialled);
                }
                // No client that begins like this stops in the middle.
                Hello::Short => self.fill(PATIENCE)?,
                Hello::Foreign => match head::resemblance(&self.seen) {
                    Resemblance::Request => return self.forward_next(authority, dialled),
                    Resemblance::None => break,
                    Resemblance::Beginning => match self.fill(PAUSE) {
                        Ok(()) => {}
                        Err(_) if head::has_known_method(&self.seen) => {
                            return self.forward_next(authority, dialled);
                        }
                        Err(_) => break,
                    },
                },
            }
        }
        self.carry(Vec::new(), Outward::Everything, dialled)
    }

    /// Passes the server's bytes on until the client sends something. Returns `false` if the server ended before.
    fn relay_until_heard(&mut self, dialled: &Dialled<'_>) -> Result<bool, Ended> {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut scratch = vec![0; PIECE];
        while self.seen.is_empty() {
            let mut watched =
                [PollFd::new(&self.stream, PollFlags::IN), PollFd::new(&dialled.stream, PollFlags::IN)];
            match poll(&mut watched, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            let (client, server) = (watched[0].revents(), watched[1].revents());
            if !client.is_empty() {
                return self.fill(PATIENCE).map(|()| true).or(Ok(false));
            }
            if !server.is_empty() {
                match (&dialled.stream).read(&mut scratch)? {
                    0 => return Ok(false),
                    read => (&self.stream).write_all(&scratch[..read])?,
                }
            }
        }
        Ok(true)
    }

    /// Reads a request from a connection to a known host and passes it on.
    fn forward_next(&mut self, authority: &Authority, dialled: &Dialled<'_>) -> Served {
        let (head, named) = self.read_head(Some(authority))?;
        if named.host != authority.host && !weak::off(Wall::EgressName) {
            return Err(self.refuse(
                &named.host.to_string(),
                authority.port,
                Reason::NameMismatch,
                ClientProtocol::Http,
            ));
        }
        self.forward(&head, authority, dialled)
    }

    /// Passes one request on. The answer goes back as it comes, and then the connection ends.
    fn forward(&self, head: &Head, authority: &Authority, dialled: &Dialled<'_>) -> Served {
        let first = head.rewritten(authority);
        let measure = Measure::new(head.body);
        let outward = match &head.upgrade {
            _ if weak::off(Wall::EgressRequests) => Outward::Everything,
            Some(_) => Outward::Upgrade(measure, Vec::new()),
            None => Outward::Request(measure),
        };
        self.carry(first, outward, dialled)
    }

    fn carry(&self, first: Vec<u8>, outward: Outward, dialled: &Dialled<'_>) -> Served {
        let ends = Ends { client: &self.stream, server: &dialled.stream, pace: &self.scope.pace };
        Ok(carry(ends, first, outward, &self.seen)?)
    }

    fn admit(&self, authority: &Authority, protocol: ClientProtocol) -> Result<Speech, Ended> {
        let admitted = self.scope.admit(authority);
        admitted.map_err(|reason| self.refuse(&authority.host.to_string(), authority.port, reason, protocol))
    }

    fn dial(
        &self,
        authority: &Authority,
        speech: Speech,
        protocol: ClientProtocol,
    ) -> Result<Dialled<'a>, Ended> {
        dial(self.scope, authority, speech, &self.stream).map_err(|refusal| match refusal {
            Refusal::Denied(reason) => {
                self.refuse(&authority.host.to_string(), authority.port, reason, protocol)
            }
            Refusal::Unreachable(error) => {
                protocol.unreachable(&self.stream, authority, &error);
                Ended::Refused
            }
        })
    }

    fn check_name(&self, authority: &Authority, named: Option<Result<Host, Vec<u8>>>) -> Served {
        let refuse =
            |host: &str, reason| Err(self.refuse(host, authority.port, reason, ClientProtocol::Other));
        match (named, &authority.host) {
            _ if weak::off(Wall::EgressName) => Ok(()),
            (Some(Ok(named)), host) if named == *host => Ok(()),
            // A client cannot name a server that has only an address.
            (None, Host::Address(_)) => Ok(()),
            (None, Host::Name(_)) => refuse("(no server name)", Reason::NameMismatch),
            (Some(Ok(named)), _) => refuse(&named.to_string(), Reason::NameMismatch),
            (Some(Err(written)), _) => refuse(&String::from_utf8_lossy(&written), Reason::InvalidName),
        }
    }

    /// Reads a head and returns where the request goes: to the host it names, or to the one the connection leads
    /// to.
    fn read_head(&mut self, known: Option<&Authority>) -> Result<(Head, Authority), Ended> {
        let length = loop {
            if let Some(length) = head::length(&self.seen) {
                break length;
            }
            // A client that has sent nothing yet may still send a request.
            let foreign = !self.seen.is_empty() && !head::may_be_http(&self.seen);
            if self.seen.len() >= head::HEAD_MAX || foreign {
                return Err(self.foreign(known));
            }
            self.fill(PATIENCE)?;
        };
        let rest = self.seen.split_off(length.min(self.seen.len()));
        let bytes = std::mem::replace(&mut self.seen, rest);
        if length > head::HEAD_MAX {
            return Err(self.foreign(known));
        }
        let head = Head::read(&bytes).map_err(|odd| self.refuse_head(&odd))?;
        let authority = match (&head.target, known) {
            (Target::Tunnel(authority) | Target::Absolute(authority, _), None) => authority.clone(),
            (Target::Absolute(authority, _), Some(_)) => authority.clone(),
            (Target::Origin(named, _), Some(known)) => named.clone().unwrap_or_else(|| known.clone()),
            (Target::Origin(..), None) => {
                return Err(self.answer_400("this is a proxy: write `http://…` or `CONNECT`"));
            }
            (Target::Tunnel(_), Some(_)) => return Err(self.answer_400("there is no proxy here")),
        };
        Ok((head, authority))
    }

    fn refuse_head(&self, odd: &head::Odd) -> Ended {
        match odd {
            head::Odd::Ambiguous(_) => self.answer_400(&odd.to_string()),
            head::Odd::Host { written, port } => {
                self.refuse(written, *port, Reason::InvalidName, ClientProtocol::Http)
            }
            head::Odd::Mismatch { host, authority } => {
                self.refuse(host, authority.port, Reason::NameMismatch, ClientProtocol::Http)
            }
        }
    }

    /// Refuses another protocol. Reports the host if it is known; the proxy's own clients get a 400.
    fn foreign(&self, known: Option<&Authority>) -> Ended {
        match known {
            Some(known) => {
                self.refuse(&known.host.to_string(), known.port, Reason::Protocol, ClientProtocol::Other)
            }
            None => self.answer_400("this is no request of HTTP/1, or its head is too long"),
        }
    }

    fn read_hello(&mut self, authority: &Authority) -> Result<Option<Result<Host, Vec<u8>>>, Ended> {
        loop {
            match tls::hello(&self.seen) {
                Hello::Named(named) => return Ok(named),
                Hello::Foreign if weak::off(Wall::EgressName) => return Ok(None),
                Hello::Foreign => {
                    return Err(self.foreign(Some(authority)));
                }
                Hello::Short => self.fill(PATIENCE)?,
            }
        }
    }

    fn read_socks<T>(
        &mut self,
        read: impl Fn(&[u8]) -> Result<socks::Read<T>, socks::Odd>,
    ) -> Result<T, Ended> {
        loop {
            match read(&self.seen) {
                Ok(socks::Read::Whole(value, taken)) => {
                    self.seen.drain(..taken);
                    return Ok(value);
                }
                // The longest SOCKS message is shorter than a piece.
                Ok(socks::Read::Short) => self.fill(PATIENCE)?,
                Err(socks::Odd::Answer(answer)) => {
                    (&self.stream).write_all(&answer.bytes())?;
                    return Err(Ended::Refused);
                }
                Err(socks::Odd::Host { written, port }) => {
                    let written = String::from_utf8_lossy(&written).into_owned();
                    return Err(self.refuse(&written, port, Reason::InvalidName, ClientProtocol::Socks));
                }
            }
        }
    }

    /// Waits for more bytes of the client.
    fn fill(&mut self, patience: Duration) -> Result<(), Ended> {
        let deadline = Instant::now() + patience;
        let mut scratch = [0; PIECE];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Ended::Gone);
            }
            self.stream.set_read_timeout(Some(left))?;
            match (&self.stream).read(&mut scratch) {
                Ok(0) => return Err(Ended::Gone),
                Ok(read) => {
                    self.seen.extend_from_slice(&scratch[..read]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Ended::Gone),
            }
        }
    }

    /// Records the denial, then tells the client.
    fn refuse(&self, host: &str, port: u16, reason: Reason, protocol: ClientProtocol) -> Ended {
        let denial = self.scope.deny(host, port, reason);
        protocol.denied(&self.stream, &denial);
        Ended::Refused
    }

    fn answer_400(&self, why: &str) -> Ended {
        respond(&self.stream, "400 Bad Request", why);
        Ended::Refused
    }
}
