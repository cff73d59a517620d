//! A server that must never be called.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Namespace, Server};

/// Where it listens: the namespace is the test's own, so the port is free.
pub const PORT: u16 = 8088;

/// What a client that connects gets.
pub const SECRET: &str = "trap-secret";

/// Counts who connects.
#[derive(Debug)]
pub struct Trap {
    calls: Arc<AtomicUsize>,
    _server: Server,
}

impl Trap {
    /// Listens at an address.
    pub fn set(namespace: &Namespace, address: &str) -> Self {
        let address: IpAddr = super::wires::address(address);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let server = Server::start_at(
            namespace,
            SocketAddr::new(address, PORT),
            Arc::new(move |mut stream, _| {
                counted.fetch_add(1, Ordering::SeqCst);
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{SECRET}",
                    SECRET.len()
                );
                let _ = stream.write_all(answer.as_bytes());
                // If we closed before reading everything, the kernel would reset the connection and the client
                // would lose the answer.
                let _ = stream.read(&mut [0; 4096]);
            }),
        );
        Self { calls, _server: server }
    }

    /// Returns how often it was called since it was last asked.
    pub fn calls(&self) -> usize {
        self.calls.swap(0, Ordering::SeqCst)
    }
}
