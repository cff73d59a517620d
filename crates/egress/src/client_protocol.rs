//! Tells a client that it is refused, in its own protocol.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;

use coracle_core::network::rule::{WEB, WEB_TLS};
use coracle_core::network::{Denial, Reason};

use crate::head::Authority;
use crate::socks::Answer;

/// The protocol in which the proxy tells a client that it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientProtocol {
    Http,
    Socks,
    /// Cannot express a refusal: the connection just ends.
    Other,
}

impl ClientProtocol {
    /// Tells the client. Ignores errors: the refusal stands even if the client is gone.
    pub fn denied(self, mut stream: &UnixStream, denial: &Denial) {
        match self {
            Self::Http => respond(stream, "403 Forbidden", &advice(denial)),
            Self::Socks => drop(stream.write_all(&Answer::NotAllowed.bytes())),
            Self::Other => {}
        }
    }

    pub fn unreachable(self, mut stream: &UnixStream, authority: &Authority, error: &io::Error) {
        let Authority { host, port } = authority;
        match self {
            Self::Http => {
                respond(stream, "502 Bad Gateway", &format!("could not reach {host}:{port}: {error}"))
            }
            Self::Socks => drop(stream.write_all(&Answer::Unreachable.bytes())),
            Self::Other => {}
        }
    }
}

fn advice(denial: &Denial) -> String {
    let Denial { host, port, reason } = denial;
    match reason {
        Reason::NotAllowed => {
            // A rule without a port is narrower: it allows only HTTP at 80 and TLS at 443.
            let rule = match *port {
                WEB | WEB_TLS => host.clone(),
                port => format!("{host}:{port}"),
            };
            format!("{denial}: allow it with `--network allow={rule}` when the sandbox is made")
        }
        Reason::NotPublic => format!("{denial}: a host name reaches only public addresses"),
        Reason::Unresolved => denial.told(),
        Reason::InvalidName | Reason::NameMismatch | Reason::Protocol | Reason::Limit => denial.to_string(),
    }
}

/// Sends an HTTP response, and says that the connection ends.
pub fn respond(mut stream: &UnixStream, status: &str, text: &str) {
    let body = format!("coracle: {text}\n");
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let _ = stream.write_all(answer.as_bytes());
}
