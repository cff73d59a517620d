//! A keeper with a fake guest that is only its port: which clients it lets in, and how it ends.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use coracle_core::network::listener::listeners;
use coracle_core::network::{Caps, Network};
use coracle_core::{Error, Kind, Result};
use coracle_egress::keeper::{Accepted, Body, Guest, Lost, Parked, Terms, keep};
use coracle_egress::{denials, directory};
use coracle_testing::ManualClock;

const PROXY: u8 = 0;

/// Hands the other end of each connection to the test. A byte on it is the number of the listener a client
/// connected to.
#[derive(Debug)]
struct FakeGuest {
    connected: Mutex<mpsc::Sender<UnixStream>>,
}

impl Guest for FakeGuest {
    fn connect(&self) -> Result<UnixStream, Lost> {
        let (ours, theirs) = UnixStream::pair().map_err(|_| Lost::Connection)?;
        let connected = self.connected.lock().map_err(|_| Lost::Guest)?;
        connected.send(theirs).map_err(|_| Lost::Guest)?;
        Ok(ours)
    }

    fn greet(&self, mut stream: UnixStream) -> Result<Parked, Lost> {
        Ok(Box::new(move || {
            let mut listener = [0; 1];
            stream.read_exact(&mut listener).map_err(|_| Lost::Connection)?;
            Ok(Accepted { listener: listener[0].into(), stream, rest: Vec::new() })
        }))
    }
}

/// Starts a keeper and returns the guest's ends of its connections once it serves.
fn started(place: &Path, network: &str) -> (mpsc::Receiver<UnixStream>, JoinHandle<Result<()>>) {
    let network: Network = network.parse().expect("a network");
    let (connected, connections) = mpsc::channel();
    let (ready, served) = mpsc::channel();
    let place = place.to_owned();
    let terms = move || {
        Ok(Terms {
            listeners: listeners(&network),
            network,
            caps: Caps::default(),
            clock: Arc::new(ManualClock::default()),
            guest: Arc::new(FakeGuest { connected: Mutex::new(connected) }),
        })
    };
    let keeper = thread::spawn(move || {
        keep(&place, Body::Thread, terms, || ready.send(()).expect("the test waits for it"))
    });
    served.recv().expect("it serves");
    (connections, keeper)
}

#[test]
fn a_client_of_a_host_that_is_not_allowed_is_refused_and_written_down() {
    let place = tempfile::tempdir().expect("a directory");
    let (connections, keeper) = started(place.path(), "allow=ok.test");
    let mut client = connections.recv().expect("one is parked");

    client.write_all(&[PROXY]).expect("it is joined");
    client.write_all(b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n").expect("it listens");
    let mut answer = String::new();
    // A connection that is cut has sent all it had to.
    let _ = client.read_to_string(&mut answer);
    directory::end(place.path()).expect("it ends");

    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let denied: Vec<_> = denials::read(place.path()).into_iter().map(|entry| entry.denial.host).collect();
    assert_eq!(denied, ["evil.test"]);
    keeper.join().expect("it does not panic").expect("it kept");
}

#[test]
fn a_keeper_ends_when_its_guest_is_gone() {
    let place = tempfile::tempdir().expect("a directory");
    let (connections, keeper) = started(place.path(), "allow=ok.test");
    assert!(directory::is_kept(place.path()).expect("a lock"));

    drop(connections);

    keeper.join().expect("it does not panic").expect("it kept");
    assert!(!directory::is_kept(place.path()).expect("a lock"));
}

#[test]
fn a_sandbox_has_one_keeper_and_one_that_has_ended_has_none() {
    let place = tempfile::tempdir().expect("a directory");
    let ended = || Err(Error::new(Kind::Conflict, "the sandbox has ended"));
    let refused = keep(place.path(), Body::Thread, ended, || {}).expect_err("there is nothing to keep");
    let (_connections, keeper) = started(place.path(), "allow=ok.test");

    let second = keep(place.path(), Body::Thread, || panic!("the first has the lock"), || {});
    directory::end(place.path()).expect("it ends");

    assert_eq!(refused.kind, Kind::Conflict);
    second.expect("it leaves the network to the first");
    keeper.join().expect("it does not panic").expect("it kept");
}
