//! Which servers get to see the user's credentials.

use std::fs;
use std::path::Path;

use coracle_core::Kind;
use coracle_core::image::Silent;
use coracle_images::Registries;
use coracle_images::testing::{Image, Layer};
use tempfile::TempDir;

use crate::server::{Answer, Asked, Server, registry_of};
use crate::workshop::{Workshop, reference};

/// `anna:secret`, as in the header.
const ANNA: &str = "Basic YW5uYTpzZWNyZXQ=";

fn image() -> Image {
    Image::single(Layer::new().file("a", 0o644, b"content"))
}

/// Writes the configuration that `docker login` would write.
fn logged_in(registry: &str) -> TempDir {
    let directory = TempDir::new().expect("a temporary directory can be made");
    let text = serde_json::json!({"auths": {registry: {"auth": "YW5uYTpzZWNyZXQ="}}});
    fs::write(directory.path().join("config.json"), text.to_string()).expect("the directory is ours");
    directory
}

fn knowing(directory: &Path) -> Registries {
    Registries { docker_config: Some(directory.to_owned()), ..Registries::default() }
}

fn authorization(asked: &Asked) -> Option<&str> {
    asked.headers.get("authorization").map(String::as_str)
}

#[test]
fn a_registry_that_asks_for_a_password_gets_it() {
    let honest = registry_of(&image());
    let server = Server::start(move |asked| match authorization(asked) {
        Some(ANNA) => honest(asked),
        _ => Answer::new(401).header("WWW-Authenticate", r#"Basic realm="x""#),
    });
    let login = logged_in(&server.host());
    let name = format!("{}/a:1", server.host());

    Workshop::with(knowing(login.path()))
        .store
        .pull(&reference(&name), &Silent)
        .expect("the password is right");

    assert_eq!(Workshop::new().refusal(&name).kind, Kind::ImageNotFound);
}

#[test]
fn a_token_is_fetched_with_the_password_and_then_used_alone() {
    let honest = registry_of(&image());
    let server = Server::start_knowing(|host| {
        move |asked: &Asked| match authorization(asked) {
            Some(ANNA) if asked.path.starts_with("/token") => Answer::ok(r#"{"token":"t0ken"}"#),
            Some("Bearer t0ken") if !asked.path.starts_with("/token") => honest(asked),
            _ => Answer::new(401).header(
                "WWW-Authenticate",
                format!(r#"Bearer realm="http://{host}/token",service="s v",scope="x:y:push""#),
            ),
        }
    });
    let login = logged_in(&server.host());

    let workshop = Workshop::with(knowing(login.path()));
    workshop
        .store
        .pull(&reference(&format!("{}/team/a:1", server.host())), &Silent)
        .expect("the password is right");

    let tokens = server.asked_for("/token");
    assert_eq!(tokens.len(), 1);
    // We ask only for reading this repository, even if the registry proposes more.
    assert_eq!(tokens[0].path, "/token?service=s%20v&scope=repository%3Ateam%2Fa%3Apull");
}

#[test]
fn strangers_on_the_way_see_neither_password_nor_token() {
    let storage = Server::start(registry_of(&image()));
    let honest = registry_of(&image());
    let elsewhere = storage.host();
    let server = Server::start(move |asked| match authorization(asked) {
        Some(ANNA) if asked.path.contains("/blobs/") => {
            Answer::redirect(format!("http://{elsewhere}{}", asked.path))
        }
        Some(ANNA) => honest(asked),
        _ => Answer::new(401).header("WWW-Authenticate", "Basic"),
    });
    let login = logged_in(&server.host());
    let registries = Registries { private: vec![storage.host()], ..knowing(login.path()) };

    let workshop = Workshop::with(registries);
    workshop
        .store
        .pull(&reference(&format!("{}/a:1", server.host())), &Silent)
        .expect("the password is right");

    assert!(!storage.asked().is_empty());
    assert!(storage.asked().iter().all(|asked| authorization(asked).is_none()));
}

#[test]
fn the_password_for_one_registry_is_not_shown_to_another() {
    let server = Server::start(|_| Answer::new(401).header("WWW-Authenticate", "Basic"));
    let login = logged_in("registry.example");

    let error = Workshop::with(knowing(login.path())).refusal(&format!("{}/a:1", server.host()));

    assert_eq!(error.kind, Kind::ImageNotFound);
    assert!(server.asked().iter().all(|asked| authorization(asked).is_none()));
}

#[test]
fn settings_that_cannot_be_read_are_not_ignored() {
    let server = Server::start(|_| Answer::new(401).header("WWW-Authenticate", "Basic"));
    let login = TempDir::new().expect("a temporary directory can be made");
    fs::write(login.path().join("config.json"), "{").expect("the directory is ours");

    let error = Workshop::with(knowing(login.path())).refusal(&format!("{}/a:1", server.host()));

    assert_eq!(error.kind, Kind::Invalid, "{}", error.chain());
}
