//! Listening in a namespace: one thread for each connection, all of them gone with the server.

use std::fmt;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::{Namespace, PATIENCE, TICK};

/// One connection to be served: its stream, and the address it was made to.
pub type Serve = dyn Fn(TcpStream, SocketAddr) + Send + Sync;

/// A listener and its connections.
pub struct Server {
    stop: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// Listens on a port of every address, of both versions.
    pub fn start(namespace: &Namespace, port: u16, serve: Arc<Serve>) -> Self {
        Self::start_at(namespace, format!("[::]:{port}").parse().expect("that is an address"), serve)
    }

    /// Listens at one address.
    pub fn start_at(namespace: &Namespace, address: SocketAddr, serve: Arc<Serve>) -> Self {
        let server = Self { stop: Arc::default(), open: Arc::default() };
        let listener = namespace.inside(move || TcpListener::bind(address));
        let listener = listener.unwrap_or_else(|error| panic!("could not listen at {address}: {error}"));
        set_socket_timeout(&listener, Timeout::Recv, Some(TICK)).expect("a socket can have a timeout");
        let (stop, open) = (server.stop.clone(), server.open.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else { continue };
                begin(stream, &open, serve.clone());
            }
        });
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn begin(stream: TcpStream, open: &Mutex<Vec<TcpStream>>, serve: Arc<Serve>) {
    let (Ok(local), Ok(kept)) = (stream.local_addr(), stream.try_clone()) else { return };
    // A client that connects and says nothing is dropped after a while.
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = stream.set_write_timeout(Some(PATIENCE));
    open.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
    std::thread::spawn(move || {
        let ours = stream.try_clone();
        serve(stream, SocketAddr::new(local.ip().to_canonical(), local.port()));
        // The copy that is kept for the end would otherwise keep the connection open.
        let _ = ours.map(|stream| stream.shutdown(Shutdown::Both));
    });
}
