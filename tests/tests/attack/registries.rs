//! TR: registries that send their clients to addresses of the attacker's choosing. Judged by a trap there: it
//! must never be called. The twin is the same pull where the operator trusts the trap, or a client that follows them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coracle_images::testing::{Image, Layer};
use coracle_tests::{Attack, Breaches, Home, Route};
use serde_json::json;

use crate::GROUND;

/// A server on this machine that ends with the test's process.
struct Server {
    address: String,
    calls: Arc<AtomicUsize>,
}

impl Server {
    /// Answers each request, by its path, with a head and a body.
    fn start(answer: impl Fn(&str) -> (String, Vec<u8>) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
        let address = listener.local_addr().expect("it has an address").to_string();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                serve(stream, &answer);
            }
        });
        Self { address, calls }
    }

    /// Starts a server that only waits to be called.
    fn trap() -> Self {
        Self::start(|_| ("404 Not Found".to_owned(), Vec::new()))
    }

    /// Tells whether it was called since it was last asked.
    fn caught(&self) -> Breaches {
        let calls = self.calls.swap(0, Ordering::SeqCst);
        (calls > 0).then(|| format!("the trap was called {calls} times")).into_iter().collect()
    }
}

/// Takes one request and closes the connection behind it.
fn serve(mut stream: TcpStream, answer: &dyn Fn(&str) -> (String, Vec<u8>)) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|length| length == 1) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (line, body) = answer(path);
    let start = format!("HTTP/1.1 {line}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(&[start.as_bytes(), &body].concat());
}

/// Pulls from a hostile registry; whether it is refused is not what is judged.
fn pull(home: &Home, registry: &Server) {
    let pulled = home.call(["image", "pull", &format!("{}/x:t", registry.address)]).run();
    assert!(!pulled.stderr.contains("panicked"), "{pulled}");
    assert_ne!(pulled.code(), Some(0), "{pulled}");
}

/// Tries the row, and its twin: the same pull where the operator has said that the trap may be called.
fn run(attack: Attack, registry: &Server, trap: &Server) {
    attack.by(&[Route::Create]).run_beside(
        |arena| {
            pull(arena.home, registry);
            trap.caught()
        },
        || {
            let home = GROUND.home();
            let settings = format!("[registries]\nprivate = [\"{}\"]\n", trap.address);
            std::fs::write(home.path().join("config.toml"), settings).expect("a home can be written");
            pull(&home, registry);
            trap.caught()
        },
    );
}

#[test]
fn tr_24_a_realm_does_not_lead_inside() {
    let trap = Server::trap();
    let realm = format!("http://{}/token", trap.address);
    let registry = Server::start(move |_| {
        let challenge = format!("WWW-Authenticate: Bearer realm=\"{realm}\",service=\"registry\"");
        (format!("401 Unauthorized\r\n{challenge}"), Vec::new())
    });

    run(Attack::starred(GROUND, "TR-24", "a realm that points inside"), &registry, &trap);
}

#[test]
fn tr_25_redirects_do_not_lead_inside() {
    let trap = Server::trap();
    let inside = format!("http://{}/blob", trap.address);
    let manifest = Image::single(Layer::new().file("f", 0o644, b"x")).manifest_blob().bytes;
    let registry = Server::start(move |path| match path.contains("/blobs/") {
        true => (format!("307 Temporary Redirect\r\nLocation: {inside}"), Vec::new()),
        false => (found(), manifest.clone()),
    });

    run(Attack::starred(GROUND, "TR-25", "redirects that point inside"), &registry, &trap);
}

#[test]
fn tr_26_layers_are_not_fetched_from_elsewhere() {
    let trap = Server::trap();
    let mut image = Image::single(Layer::new().file("f", 0o644, b"x"));
    let layer = &mut image.manifest["layers"][0];
    layer["mediaType"] = json!("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip");
    layer["urls"] = json!([format!("http://{}/layer", trap.address)]);
    let (manifest, config) = (image.manifest_blob().bytes, image.configuration_blob());
    let registry = Server::start(move |path| match path {
        path if path.contains("/manifests/") => (found(), manifest.clone()),
        path if path.ends_with(&config.digest) => ("200 OK".to_owned(), config.bytes.clone()),
        _ => ("404 Not Found".to_owned(), Vec::new()),
    });
    let as_told = || {
        let mut stream = TcpStream::connect(&trap.address).expect("the trap is open");
        let _ = stream.write_all(b"GET /layer HTTP/1.1\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
        trap.caught()
    };

    Attack::starred(GROUND, "TR-26", "layers to be fetched from elsewhere").by(&[Route::Create]).run_beside(
        |arena| {
            pull(arena.home, &registry);
            trap.caught()
        },
        as_told,
    );
}

fn found() -> String {
    "200 OK\r\nContent-Type: application/vnd.oci.image.manifest.v1+json".to_owned()
}
