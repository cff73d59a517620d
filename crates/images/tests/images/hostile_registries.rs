//! Registries that lie, and registries that lead elsewhere.

use std::sync::atomic::{AtomicUsize, Ordering};

use coracle_core::Kind;
use coracle_core::image::Silent;
use coracle_images::Registries;
use coracle_images::testing::image::descriptor;
use coracle_images::testing::{Image, Layer};
use serde_json::{Value, json};

use crate::server::{Answer, Asked, Server, registry_of};
use crate::workshop::{Workshop, reference};

fn image() -> Image {
    Image::single(Layer::new().file("a", 0o644, b"content"))
}

/// Answers like an honest registry, except for paths that contain `part`.
fn but_for(
    image: &Image,
    part: &'static str,
    other: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> impl Fn(&Asked) -> Answer + Send + Sync + 'static {
    let honest = registry_of(image);
    move |asked| if asked.path.contains(part) { other(asked) } else { honest(asked) }
}

/// A server that no registry may lead to.
fn forbidden_place() -> Server {
    Server::start(|_| Answer::ok("secret"))
}

#[test]
fn a_token_server_inside_of_the_network_is_not_asked() {
    let inside = forbidden_place();
    for realm in [
        format!("http://{}/token", inside.host()),
        format!("http://localhost:{}/token", inside.host().rsplit(':').next().unwrap_or_default()),
        "http://169.254.169.254/latest/meta-data".into(),
        "https://169.254.169.254/token".into(),
        "https://[::ffff:127.0.0.1]/token".into(),
        "https://0.0.0.0/token".into(),
        "http://example.com/token".into(),
        "file:///etc/passwd".into(),
        "https://user:word@example.com/".into(),
        "gopher://x".into(),
    ] {
        let header = format!(r#"Bearer realm="{realm}",service="x""#);
        let server = Server::start(move |_| Answer::new(401).header("WWW-Authenticate", header.clone()));

        let error = Workshop::new().refusal(&format!("{}/a:1", server.host()));

        assert_eq!(error.kind, Kind::Invalid, "{realm}: {}", error.chain());
    }
    assert!(inside.asked().is_empty());
}

#[test]
fn a_document_that_is_a_manifest_and_an_index_at_once_is_refused() {
    let image = image();
    let manifest = image.manifest_blob().bytes;
    // Other programs ignore the case of a field, and would take it for an index.
    for field in ["manifests", "Manifests"] {
        let mut both: Value = serde_json::from_slice(&manifest).expect("a manifest");
        both[field] = json!([descriptor("application/vnd.oci.image.manifest.v1+json", &manifest)]);
        let both = both.to_string();
        let server =
            Server::start(but_for(&image, "/manifests/", move |_| Answer::ok(both.clone().into_bytes())));

        let error = Workshop::new().refusal(&format!("{}/a:1", server.host()));

        assert_eq!(error.kind, Kind::Invalid, "{field}: {}", error.chain());
    }
}

#[test]
fn a_blob_is_not_fetched_from_inside_of_the_network() {
    let inside = forbidden_place();
    for target in [
        format!("http://{}/x", inside.host()),
        "https://127.0.0.1:1/x".into(),
        "https://10.0.0.1/x".into(),
        "http://example.com/x".into(),
        "ftp://example.com/x".into(),
        "//169.254.169.254/x".into(),
        String::new(),
    ] {
        let location = target.clone();
        let answer = but_for(&image(), "/blobs/", move |_| Answer::redirect(location.clone()));
        let server = Server::start(answer);

        let error = Workshop::new().refusal(&format!("{}/a:1", server.host()));

        assert_eq!(error.kind, Kind::Invalid, "{target}: {}", error.chain());
    }
    assert!(inside.asked().is_empty());
}

#[test]
fn a_place_the_operator_lists_may_be_led_to() {
    let storage = Server::start(registry_of(&image()));
    let location = format!("http://{}", storage.host());
    let answer =
        but_for(&image(), "/blobs/", move |asked| Answer::redirect(format!("{location}{}", asked.path)));
    let server = Server::start(answer);
    let workshop = Workshop::with(Registries { private: vec![storage.host()], ..Registries::default() });

    workshop.store.pull(&reference(&format!("{}/a:1", server.host())), &Silent).expect("it is listed");

    assert_eq!(storage.asked_for("/blobs/").len(), 2);
}

#[test]
fn no_more_than_five_redirects_are_followed() {
    let hops = |count: usize| {
        let honest = registry_of(&image());
        Server::start(move |asked| match asked.path.split_once("?hop=") {
            None if asked.path.contains("/blobs/") => Answer::redirect(format!("{}?hop=1", asked.path)),
            Some((path, hop)) => match hop.parse::<usize>().unwrap_or_default() {
                hop if hop < count => Answer::redirect(format!("{path}?hop={}", hop + 1)),
                _ => honest(&Asked { path: path.to_owned(), ..asked.clone() }),
            },
            None => honest(asked),
        })
    };

    let fine = Workshop::new();
    fine.store.pull(&reference(&format!("{}/a:1", hops(5).host())), &Silent).expect("five are fine");
    let endless = hops(10_000);
    let error = Workshop::new().refusal(&format!("{}/a:1", endless.host()));

    assert_eq!(error.kind, Kind::Invalid);
    assert_eq!(endless.asked_for("/blobs/").len(), 6);
}

#[test]
fn the_addresses_in_a_manifest_are_never_asked() {
    let inside = forbidden_place();
    let mut image = image();
    image.manifest["layers"][0]["urls"] = json!([format!("http://{}/layer", inside.host())]);
    image.manifest["layers"][0]["mediaType"] =
        json!("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip");
    let missing = image.layers.remove(0);
    let server = Server::start(registry_of(&image));

    let error = Workshop::new().refusal(&format!("{}/a:1", server.host()));

    assert_eq!(error.kind, Kind::Unsupported, "{}", error.chain());
    assert!(inside.asked().is_empty());
    assert_eq!(server.asked_for(&missing.digest).len(), 1);
}

#[test]
fn content_with_another_digest_or_size_is_refused() {
    let honest = image();
    let layer = honest.layers[0].clone();
    let mut changed = layer.bytes.clone();
    changed[20] ^= 1;
    let short = layer.bytes[..layer.bytes.len() - 1].to_vec();
    let long = [layer.bytes.as_slice(), b"x"].concat();
    for body in [changed, long] {
        let hex = Box::leak(layer.digest.clone().into_boxed_str());
        let server = Server::start(but_for(&honest, hex, move |_| Answer::ok(body.clone())));
        let error = Workshop::new().refusal(&format!("{}/a:1", server.host()));
        assert_eq!(error.kind, Kind::Invalid, "{}", error.chain());
    }
    // Less than announced may still come later, but we do not wait for ever.
    let hex = Box::leak(layer.digest.clone().into_boxed_str());
    let server = Server::start(but_for(&honest, hex, move |_| Answer::ok(short.clone())));
    let error = Workshop::new().refusal(&format!("{}/a:1", server.host()));
    assert_eq!(error.kind, Kind::NotAvailable, "{}", error.chain());
    // The right content with another size in the manifest.
    let mut wrong = honest.clone();
    wrong.manifest["layers"][0]["size"] = json!(layer.bytes.len() - 1);
    let server = Server::start(registry_of(&wrong));
    assert_eq!(Workshop::new().refusal(&format!("{}/a:1", server.host())).kind, Kind::Invalid);
}

#[test]
fn a_manifest_that_is_not_what_was_asked_for_is_refused() {
    let server = Server::start(registry_of(&image()));
    let pinned = format!("{}/a@sha256:{}", server.host(), "0".repeat(64));
    let asked = Asked { path: "/v2/a/manifests/1".into(), headers: Default::default() };
    let lying = registry_of(&image())(&asked);
    let lying = lying.header("Docker-Content-Digest", format!("sha256:{}", "1".repeat(64)));
    let liar = Server::start(but_for(&image(), "/manifests/", move |_| lying.clone()));

    assert_eq!(Workshop::new().refusal(&pinned).kind, Kind::Invalid);
    assert_eq!(Workshop::new().refusal(&format!("{}/a:1", liar.host())).kind, Kind::Invalid);
}

#[test]
fn a_tag_is_looked_up_once_and_what_it_led_to_is_kept() {
    let (first, second) = (image(), Image::single(Layer::new().file("a", 0o644, b"moved")));
    let (one, two) = (registry_of(&first), registry_of(&second));
    let count = AtomicUsize::new(0);
    let server = Server::start(move |asked| {
        match asked.path.contains("/manifests/") && count.fetch_add(1, Ordering::SeqCst) > 0 {
            true => two(asked),
            false => one(asked),
        }
    });
    let workshop = Workshop::new();
    let name = format!("{}/a:1", server.host());

    let stored = workshop.store.pull(&reference(&name), &Silent).expect("it is there");

    assert_eq!(stored.digest, first.digest());
    assert_eq!(server.asked_for("/manifests/").len(), 1);
    assert_eq!(workshop.image(&format!("{}/a@{}", server.host(), first.digest())).digest, first.digest());
}

#[test]
fn documents_that_are_too_large_or_too_deep_are_refused() {
    let index = |manifests: serde_json::Value| {
        json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests})
            .to_string()
    };
    let kind = "application/vnd.oci.image.index.v1+json";
    let mut nested = descriptor(kind, b"");
    nested["platform"] = json!({"os": "linux", "architecture": coracle_images::testing::architecture()});
    let inner = index(json!([nested]));
    let mut listed = descriptor(kind, inner.as_bytes());
    listed["platform"] = nested["platform"].clone();
    let outer = index(json!([listed]));
    let elsewhere = index(json!([{"mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 2,
        "digest": format!("sha256:{}", "2".repeat(64)), "platform": {"os": "plan9", "architecture": "mips"}}]));
    let mut many = image();
    many.manifest["layers"] = vec![many.manifest["layers"][0].clone(); 100_000].into();

    let refusal = |manifest: String, inner: String| {
        let by_tag = move |asked: &Asked| match asked.path.ends_with("/1") {
            true => Answer::ok(manifest.clone()),
            false => Answer::ok(inner.clone()),
        };
        let server = Server::start(but_for(&image(), "/manifests/", by_tag));
        Workshop::new().refusal(&format!("{}/a:1", server.host()))
    };
    assert_eq!(refusal(outer, inner).kind, Kind::Invalid);
    assert_eq!(refusal(many.manifest.to_string(), String::new()).kind, Kind::LimitExceeded);
    assert_eq!(refusal(" ".repeat(5 << 20), String::new()).kind, Kind::LimitExceeded);
    let error = refusal(elsewhere, String::new());
    assert_eq!(error.kind, Kind::Unsupported);
    assert!(error.hint.unwrap_or_default().contains("plan9/mips"));
}

#[test]
fn a_missing_image_is_not_taken_for_an_unreachable_registry() {
    let status = |status: u16| {
        let server = Server::start(move |_| Answer::new(status));
        Workshop::new().refusal(&format!("{}/team/a:1", server.host()))
    };
    let unreachable = Workshop::new().refusal("127.0.0.1:1/a:1");

    let missing = status(404);
    assert_eq!(missing.kind, Kind::ImageNotFound);
    assert!(missing.message.contains("team/a:1"), "{}", missing.message);
    let denied = status(401);
    assert_eq!(denied.kind, Kind::ImageNotFound);
    assert!(denied.hint.unwrap_or_default().contains("docker login"));
    assert_eq!(status(503).kind, Kind::NotAvailable);
    assert_eq!(unreachable.kind, Kind::NotAvailable);
    assert!(unreachable.hint.is_some());
}

#[test]
fn a_registry_that_has_trouble_is_asked_again() {
    let honest = registry_of(&image());
    let count = AtomicUsize::new(0);
    let server = Server::start(move |asked| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::new(503),
        1 => Answer::new(429).header("Retry-After", "0"),
        _ => honest(asked),
    });

    let pulled = Workshop::new().store.pull(&reference(&format!("{}/a:1", server.host())), &Silent);

    assert!(pulled.is_ok());
}
