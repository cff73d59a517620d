//! Registries on other machines need TLS, and a certificate that proves who they are.

use std::net::UdpSocket;

use coracle_core::Kind;
use coracle_core::image::Silent;
use coracle_images::Registries;
use coracle_images::testing::{Image, Layer, Registry};

use crate::server::{Answer, Server};
use crate::workshop::{Workshop, reference};

/// Returns an address of this machine that other machines could use.
fn address() -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("sockets can be made");
    // Nothing is sent; the kernel only looks up the route.
    socket.connect("198.51.100.1:9").expect("this machine has a route");
    socket.local_addr().expect("it is bound").ip().to_string()
}

#[test]
fn a_registry_is_trusted_with_the_operators_certificate_and_not_without() {
    let (registry, keys) = Registry::start_with_tls(&address());
    let name = registry.push("a:1", &Image::single(Layer::new().file("a", 0o644, b"x")));
    let trusting = Registries { extra_roots: Some(keys.path().join("root.pem")), ..Registries::default() };

    Workshop::with(trusting)
        .store
        .pull(&reference(&name), &Silent)
        .unwrap_or_else(|error| panic!("{}", error.chain()));
    let error = Workshop::new().refusal(&name);

    assert_eq!(error.kind, Kind::Invalid, "{}", error.chain());
    assert!(error.message.contains("certificate"), "{}", error.chain());
}

#[test]
fn a_registry_elsewhere_is_never_spoken_to_in_the_clear_unless_listed() {
    let server = Server::start_at(&address(), |_| Answer::new(404));
    let listed = Registries { plain_http: vec![server.host()], ..Registries::default() };

    let refused = Workshop::new().refusal(&format!("{}/a:1", server.host()));
    assert_eq!(refused.kind, Kind::NotAvailable, "{}", refused.chain());
    assert!(refused.hint.is_some_and(|hint| hint.contains("registries.plain_http")));
    assert!(server.asked().is_empty());

    assert_eq!(Workshop::with(listed).refusal(&format!("{}/a:1", server.host())).kind, Kind::ImageNotFound);
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_file_without_certificates_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    let registries = Registries { extra_roots: Some(file.path().to_owned()), ..Registries::default() };

    assert_eq!(Workshop::with(registries).refusal("registry.example/a:1").kind, Kind::Invalid);
}
