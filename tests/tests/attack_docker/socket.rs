//! DK: what a command can do to the guest of its container, with the rights to install packages at most.

use std::time::Duration;

use coracle_tests::attack::{Ground, LEAK, engine};
use coracle_tests::{Arena, Attack, Breaches, Canary, Home, Route, SOON, count, eventually};

use crate::GROUND;

/// What `privileges: install` gives would let a command write to any file it finds.
const INSTALL: &[&str] = &["--privileges", "install"];
/// How long a command that stands in for the guest may take to be there.
const APPEARANCE: Duration = SOON;

/// Finds the guest's socket, speaks to it, removes it, and listens in its place.
const REPLACE: &str = include_str!("payloads/replace_socket.py");

#[test]
fn dk_01_the_guests_socket_is_out_of_reach() {
    let title = "find, reach, remove and replace the guest's socket with the rights to install packages";
    Attack::starred(GROUND, "DK-01", title)
        .by(&[Route::Exec, Route::Transfer])
        .with(INSTALL)
        .without(&["Socket"])
        .every(&["connected", "cannot be reached"])
        .run(|arena| {
            let impostor = arena.call_with(&["--detach"], &["python3", "-c", REPLACE]).succeed();
            let told = || read(arena, "/tmp/told");
            eventually(APPEARANCE, || told().ends_with("listening\n") || lost(arena));
            let mut breaches: Breaches =
                told().lines().filter(|line| *line != "listening").map(str::to_owned).collect();
            breaches.extend(lost(arena).then(|| "the sandbox cannot be reached".to_owned()));
            breaches.extend(heard(arena).then(|| "heard what the host says to the guest".to_owned()));
            drop(impostor);
            breaches
        });
}

/// Reads a file of the sandbox from outside: the guest may be out of reach.
fn read(arena: &Arena<'_>, path: &str) -> String {
    let guests = arena.home.census().guests();
    let paths = guests.iter().map(|guest| format!("/proc/{guest}/root{path}"));
    paths.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

fn lost(arena: &Arena<'_>) -> bool {
    arena.call(&["true"]).run().code() != Some(0)
}

fn heard(arena: &Arena<'_>) -> bool {
    read(arena, "/tmp/heard").contains("heard")
}

#[test]
fn dk_02_no_descriptor_of_the_guests_is_a_directory_to_start_in() {
    let title = "start in `/proc/self/fd/N`: what the guest has open";
    Attack::starred(GROUND, "DK-02", title).through(&LEAK).without(&["Descriptors"]).run(|arena| {
        let started = |number: &usize| {
            let directory = format!("/proc/self/fd/{number}");
            arena.call_with(&["--cwd", &directory], &["true"]).run().code() == Some(0)
        };
        let numbers = (3..count(16, 1024)).filter(started);
        numbers.map(|number| format!("started in descriptor {number}")).collect()
    });
}

/// Tries to change the guest's program and what it lies in.
const CHANGE: &str = include_str!("payloads/change_program.py");

#[test]
fn dk_03_the_guests_program_is_nobodys_to_change() {
    let title = "write to the volume all sandboxes of the engine have the guest's program from";
    let canary = Canary::new();
    Attack::starred(GROUND, "DK-03", title).with(INSTALL).without(&["Layers"]).run(|arena| {
        let ran = arena.python(CHANGE, &[canary.secret()]);
        ran.text().lines().map(str::to_owned).collect()
    });
}

#[test]
fn dk_04_the_secret_is_not_with_the_engine() {
    let title = "find the secret between host and guest in all the engine tells about the container";
    let told = |home: &Home, text: &str| -> Breaches {
        let secrets = secrets(home);
        assert!(!secrets.is_empty(), "a sandbox has a secret, or this proves nothing");
        let found = secrets.iter().any(|secret| text.contains(secret.as_str()));
        found.then(|| "the engine tells the secret".to_owned()).into_iter().collect()
    };
    let attempt = |arena: &Arena<'_>| -> Breaches {
        arena.call(&["true"]).succeed();
        told(arena.home, &everything_about(arena.home))
    };
    let naive = || {
        let home = Ground::Docker.home();
        home.open();
        let secret = secrets(&home).pop().unwrap_or_default();
        told(&home, &format!("an environment with {secret}"))
    };
    Attack::starred(GROUND, "DK-04", title).by(&[Route::Exec]).run_beside(attempt, naive);
}

/// Returns what the engine tells about the containers of a home.
fn everything_about(home: &Home) -> String {
    let label = format!("coracle.instance={}", home.instance().expect("it was used"));
    let ids = engine().container_ids(&label);
    assert!(!ids.is_empty(), "there is no container");
    let document = |id: &String| engine().document(&format!("/containers/{id}/json")).to_string();
    ids.iter().map(document).collect()
}

/// Returns the secrets in the database of a home, as an engine could tell them: in hex, in base64, and as numbers.
fn secrets(home: &Home) -> Vec<String> {
    let script = include_str!("payloads/host/secrets.py");
    let told = std::process::Command::new("/usr/bin/python3").args(["-c", script]).arg(home.path()).output();
    let told = told.expect("python3 can be started");
    let lines = String::from_utf8_lossy(&told.stdout).into_owned();
    lines.lines().map(str::to_owned).collect()
}

#[test]
fn dk_05_the_engine_cannot_be_reached_from_inside() {
    let title = "find the engine's socket or its ports from inside";
    let payload = include_str!("payloads/find_engine.py");
    let attempt = |arena: &Arena<'_>| arena.confess(payload, &[]);
    let naive = || {
        let socket = format!("{}:/var/run/docker.sock", engine().socket().display());
        let image = coracle_tests::attack::IMAGE;
        let words = ["run", "--rm", "--network", "none", "-v", &socket, image, "python3", "-c", payload];
        let ran = engine().client(words).output().expect("`docker` can be started");
        String::from_utf8_lossy(&ran.stdout).lines().map(str::to_owned).collect()
    };
    Attack::starred(GROUND, "DK-05", title).run_beside(attempt, naive);
}

#[test]
fn dk_12_file_operations_do_not_reach_the_guests_directory() {
    let title = "write, make and list in the guest's own directory through the file API, or by a link to it";
    Attack::starred(GROUND, "DK-12", title)
        .by(&[Route::Exec])
        .without(&["GuestDirectory"])
        .every(&["planted", "below", "linked", "listed"])
        .run(|arena| {
            arena.call(&["ln", "-s", "/.coracle/run", "/workspace/way"]).succeed();
            for path in ["/.coracle/run/planted", "/.coracle/run/sub/below", "/workspace/way/linked"] {
                arena.file("write", &[path]).stdin("canary").run();
            }
            let listed = arena.file("list", &["/.coracle/run"]).run();
            let room = arena.home.path().join("engines/docker").join(arena.sandbox()).join("run");
            let there = |name: &&str| room.join(name).exists();
            let planted = ["planted", "sub/below", "linked"].into_iter().filter(there);
            let mut breaches: Breaches = planted.map(|name| format!("{name} is in the room")).collect();
            breaches.extend((listed.code() == Some(0)).then(|| "listed".to_owned()));
            breaches
        });
}

/// Listens where the guest's socket would be, and writes down what it hears.
const LISTEN: &str = include_str!("payloads/stand_in.py");

#[test]
fn dk_06_who_is_sent_to_the_guest_does_not_speak_to_another() {
    let title = "stand in for the guest where the host comes through a program the engine starts";
    let speak = |arena: &Arena<'_>, program: &[&str]| -> Breaches {
        arena.call_with(&["--detach"], &["python3", "-c", LISTEN]).succeed();
        let listens = eventually(APPEARANCE, || read(arena, "/tmp/heard").contains("listening"));
        assert!(listens.is_some(), "nothing listens in its place");
        let label = format!("coracle.instance={}", arena.home.instance().expect("it was used"));
        let container = engine().container_ids(&label).pop().expect("there is a container");
        let words = [&["exec", "-i", &container], program].concat();
        let mut visitor = engine().client(words);
        let visitor = visitor.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let mut visitor = visitor.spawn().expect("`docker` can be started");
        let mut stdin = visitor.stdin.take().expect("it is a pipe");
        let _ = std::io::Write::write_all(&mut stdin, b"canary");
        let heard = eventually(Duration::from_secs(6), || read(arena, "/tmp/heard").contains("canary"));
        drop(stdin);
        let _ = visitor.kill();
        let _ = visitor.wait();
        heard.map(|_| "heard what was meant for the guest".to_owned()).into_iter().collect()
    };
    let naive = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect('/.coracle/run/guest'); s.sendall(sys.stdin.buffer.read(6))";
    Attack::starred(GROUND, "DK-06", title).by(&[Route::Exec]).with(INSTALL).run_beside(
        |arena| speak(arena, &["/.coracle/guest", "connect"]),
        || Attack::in_one(Ground::Docker, INSTALL, |arena| speak(arena, &["python3", "-c", naive])),
    );
}
