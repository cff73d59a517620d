//! A container engine's socket behind a TCP port: a client that connects there must assume that it shares no files with
//! the engine.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

/// A port that leads to a socket for as long as this process lives.
#[derive(Debug)]
pub struct Relay {
    port: u16,
}

impl Relay {
    pub fn to(socket: &Path) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let socket = socket.to_owned();
        thread::spawn(move || listener.incoming().flatten().for_each(|client| join(client, socket.clone())));
        Ok(Self { port })
    }

    pub fn address(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.port)
    }
}

/// Carries bytes both ways. An engine that is not there is a connection that ends at once.
fn join(client: TcpStream, socket: PathBuf) {
    thread::spawn(move || -> io::Result<()> {
        let engine = UnixStream::connect(socket)?;
        let (mut from_client, mut to_engine) = (client.try_clone()?, engine.try_clone()?);
        thread::spawn(move || {
            let _ = io::copy(&mut from_client, &mut to_engine);
            to_engine.shutdown(Shutdown::Write)
        });
        let (mut from_engine, mut to_client) = (engine, client);
        let _ = io::copy(&mut from_engine, &mut to_client);
        // Both ways: once the engine has ended its side, no answer can come.
        to_client.shutdown(Shutdown::Both)
    });
}
