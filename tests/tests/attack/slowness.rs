//! SL: slow peers. A registry that sends next to nothing, a container engine that accepts requests and does not answer,
//! one that is gone: callers that do not use them must not wait for them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use coracle_images::testing::{Image, Layer};
use coracle_tests::{Attack, Breaches, Call, Home, Route, SOON, eventually};

use crate::GROUND;

/// How long a call to something else may take at most. The waits of the twins are longer, and so is no call on a
/// busy machine.
const PATIENCE: Duration = Duration::from_secs(12);
/// How long the slow one may take to have begun.
const BEGINNING: Duration = SOON;

/// Makes a call and tells of it if it is not done in time.
fn waited(what: &str, call: Call) -> Breaches {
    let mut started = call.start();
    let done = eventually(PATIENCE, || started.has_ended());
    let breach = done.is_none().then(|| format!("{what} waits for a slow peer"));
    match done {
        Some(_) => drop(started.finish().expect_code(0)),
        None => drop(started.kill()),
    }
    breach.into_iter().collect()
}

/// Serves one image on this machine for as long as the test's process lives. Of its layer all but the first byte comes
/// only if `whole`.
fn registry(image: &Image, whole: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
    let address = listener.local_addr().expect("it has an address").to_string();
    let image = image.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let image = image.clone();
            std::thread::spawn(move || answer(stream, &image, whole));
        }
    });
    address
}

fn answer(mut stream: TcpStream, image: &Image, whole: bool) -> Option<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).ok()? == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1)?;
    let (manifest, config) = (image.manifest_blob(), image.configuration_blob());
    let blobs = image.layers.iter().chain([&config]);
    let body = match path.contains("/manifests/") {
        true => manifest.bytes,
        false => blobs.into_iter().find(|blob| path.ends_with(&blob.digest))?.bytes.clone(),
    };
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let start = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(start.as_bytes()).ok()?;
    let slow = !whole && image.layers.iter().any(|layer| path.ends_with(&layer.digest));
    let flowing = if slow { 1 } else { body.len() };
    stream.write_all(&body[..flowing]).ok()?;
    body[flowing..].iter().try_for_each(|byte| {
        std::thread::sleep(Duration::from_millis(500));
        stream.write_all(&[*byte]).ok()
    })
}

#[test]
fn sl_01_a_slow_registry_delays_nobody_else() {
    let noise: Vec<u8> =
        (0..100_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let image = Image::single(Layer::new().file("noise", 0o644, &noise));
    let (slow, good) = (registry(&image, false), registry(&image, true));
    let title = "hold back a layer that others pull from elsewhere";

    Attack::starred(GROUND, "SL-01", title).by(&[Route::Create]).without(&["Pulls"]).run(|arena| {
        let pull = |host: &str| arena.home.call(["image", "pull", &format!("{host}/x:t")]);
        let hostage = pull(&slow).start();
        let partial = arena.home.path().join("images/partial");
        let begun = || std::fs::read_dir(&partial).is_ok_and(|mut parts| parts.next().is_some());
        assert!(eventually(BEGINNING, begun).is_some(), "the slow pull did not begin: {}", hostage.kill());

        let breaches = waited("a pull from another registry", pull(&good));

        hostage.kill();
        breaches
    });
}

/// Returns the socket of an engine that takes every connection and never answers.
fn hung_engine(home: &Home) -> String {
    let path = home.path().join("hung.sock");
    let listener = UnixListener::bind(&path).expect("a home is ours");
    std::thread::spawn(move || {
        let held: Vec<_> = listener.incoming().flatten().collect();
        drop(held);
    });
    format!("unix://{}", path.display())
}

/// Makes the home one that has used Docker before: those that never have do not ask it.
fn has_used_docker(home: &Home) {
    let own = home.path().join("engines/docker");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(own).expect("a home is ours");
}

#[test]
fn sl_02_a_hung_engine_delays_nobody_who_does_not_use_it() {
    let title = "stop the engine that other sandboxes of the home were on";

    Attack::starred(GROUND, "SL-02", title).by(&[Route::Create]).without(&["Sweeps"]).run(|arena| {
        let home = arena.home;
        home.call(["run", "--", "true"]).succeed();
        has_used_docker(home);
        let engine = hung_engine(home);
        // Otherwise the sweep of a call is due once in a minute.
        std::fs::remove_file(home.path().join("swept")).expect("a call has swept");
        let calls: [(&str, &[&str]); 3] =
            [("`run`", &["run", "--", "true"]), ("`ps`", &["ps"]), ("the next `ps`", &["ps"])];
        let call =
            |(what, words): (&str, &[&str])| waited(what, home.call(words).env("DOCKER_HOST", &engine));
        // One wait is enough to know.
        let breaches = calls.into_iter().map(call).find(|breaches| !breaches.is_empty()).unwrap_or_default();
        std::fs::remove_file(home.path().join("hung.sock")).expect("a home is ours");
        breaches
    });
}

#[test]
fn sl_03_a_dead_engine_keeps_no_session_key() {
    let title = "end the engine before a sandbox could be made there";

    Attack::starred(GROUND, "SL-03", title).by(&[Route::Create]).without(&["Rooms"]).run(|arena| {
        let home = arena.home;
        has_used_docker(home);
        let words = ["open", "--backend", "docker", "--image", "localhost/x:1", "--key", "mine"];
        let dead = format!("unix://{}", home.path().join("none.sock").display());
        home.call(words).env("DOCKER_HOST", dead).run().expect_code(125);

        let live = home.live();
        let held = live.iter().filter(|sandbox| sandbox["session_key"] == "mine");
        let held: Vec<&str> = held.filter_map(|sandbox| sandbox["sandbox_id"].as_str()).collect();
        held.iter().for_each(|id| drop(home.call(["close", "--forget", id]).succeed()));
        held.iter().map(|id| format!("the key is held by `{id}`")).collect()
    });
}
