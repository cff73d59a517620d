//! Servers that speak neither HTTP nor TLS: one that waits for a line, as databases do, and one that speaks first, as
//! ssh does.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Namespace, Server};

pub const DATABASE: u16 = 5432;
pub const GREETING: u16 = 2222;
/// What the one that speaks first says.
pub const BANNER: &str = "SSH-2.0-internet";

/// The servers.
#[derive(Debug)]
pub struct Talk {
    connections: Arc<AtomicUsize>,
    _servers: [Server; 2],
}

impl Talk {
    pub fn start(outside: &Namespace) -> Self {
        let connections = Arc::new(AtomicUsize::new(0));
        let server = |port: u16, banner: String| {
            let counted = connections.clone();
            let serve = move |stream: TcpStream, _| {
                counted.fetch_add(1, Ordering::SeqCst);
                let _ = converse(stream, &banner);
            };
            Server::start(outside, port, Arc::new(serve))
        };
        let servers = [server(DATABASE, String::new()), server(GREETING, format!("{BANNER}\r\n"))];
        Self { connections, _servers: servers }
    }

    /// Returns how many connections there have been.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Returns each line with what it was answered to.
fn converse(mut stream: TcpStream, banner: &str) -> std::io::Result<()> {
    stream.write_all(banner.as_bytes())?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        stream.write_all(format!("you said {line}").as_bytes())?;
        line.clear();
    }
    Ok(())
}
