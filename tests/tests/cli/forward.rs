//! Ports of a sandbox reached from the machine, and from nowhere else.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use coracle_tests::{Home, Started, requires};
use rustix::process::Signal;

/// Sends back what it gets, and says how much that was.
const ECHO: &str = "
import socket, threading
def serve(stream):
    total = 0
    while data := stream.recv(65536):
        total += len(data); stream.sendall(data)
    stream.sendall(b'%d' % total); stream.close()
server = socket.create_server(('127.0.0.1', 8000))
print('up', flush=True)
while True: threading.Thread(target=serve, args=(server.accept()[0],)).start()";

struct Forward {
    call: Started,
    address: SocketAddr,
}

fn forward(home: &Home, words: &[&str]) -> Forward {
    let call = home.call([&["forward"], words].concat()).start();
    call.wait_for(|output| output.ends_with(b"\n"));
    let printed = String::from_utf8(call.stdout()).expect("an address is text");
    let address = printed.trim().parse().unwrap_or_else(|_| panic!("`{printed}` is no address"));
    Forward { call, address }
}

fn serving(home: &Home) -> (String, Started) {
    let sandbox = home.open();
    let server = home.exec(&sandbox, ["python3", "-c", ECHO]).start();
    server.wait_for(|output| output.starts_with(b"up"));
    (sandbox, server)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a stream can have a timeout");
    stream
}

#[test]
fn bytes_go_both_ways_to_their_end() {
    requires!(native);
    let home = Home::new();
    let (sandbox, server) = serving(&home);
    let Forward { call, address } = forward(&home, &[&sandbox, "8000"]);
    assert!(address.ip().is_loopback());
    let sent: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();

    let streams: Vec<_> = (0..4).map(|_| connect(address)).collect();
    let received: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads: Vec<_> = streams.iter().map(|stream| scope.spawn(|| exchange(stream, &sent))).collect();
        threads.into_iter().map(|thread| thread.join().expect("an exchange ends")).collect()
    });

    let expected = [&sent[..], sent.len().to_string().as_bytes()].concat();
    assert!(received.iter().all(|received| *received == expected));
    call.signal(Signal::INT);
    call.finish();
    server.kill();
}

/// Sends everything, ends its own side, and returns all that comes back.
fn exchange(stream: &TcpStream, sent: &[u8]) -> Vec<u8> {
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = stream;
            writer.write_all(sent).expect("it is read");
            stream.shutdown(Shutdown::Write).expect("it is open");
        });
        let mut reader = stream;
        reader.read_to_end(&mut received).expect("it is written");
    });
    received
}

#[test]
fn a_port_without_a_listener_closes_the_connection() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let Forward { call, address } = forward(&home, &[&sandbox, "8000"]);

    let read = connect(address).read(&mut [0; 16]);

    assert!(read.as_ref().map_or(true, |read| *read == 0), "{read:?}");
    call.kill();
}

#[test]
fn the_local_port_can_be_chosen() {
    requires!(native);
    let home = Home::new();
    let (sandbox, server) = serving(&home);
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.expect("a port can be had").port();

    let Forward { call, address } = forward(&home, &[&sandbox, &format!("{port}:8000")]);

    assert_eq!(address.port(), port);
    let mut stream = connect(address);
    stream.write_all(b"x").expect("it is open");
    stream.read_exact(&mut [0]).expect("it comes back");
    call.kill();
    server.kill();
}

#[test]
fn forward_says_when_the_local_port_differs() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
    let port = taken.local_addr().expect("it has an address").port();

    let Forward { call, address } = forward(&home, &[&sandbox, &port.to_string()]);
    call.signal(Signal::INT);
    let said = call.finish();

    assert_ne!(address.port(), port);
    let note = format!("note: port {port} cannot be used on this machine, so `{address}` leads");
    assert!(said.stderr.starts_with(&note), "{said}");
    let any = forward(&home, &[&sandbox, &format!("0:{port}")]);
    any.call.signal(Signal::INT);
    assert_eq!(any.call.finish().stderr, "");
}
