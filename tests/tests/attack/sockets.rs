//! BD: services of the machine behind unix sockets in a directory that is mounted. A sandbox without a network must not
//! reach them unless the caller allows it. Judged by the service: it must never hear anything.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use coracle_tests::{Attack, Breaches, Home, Route, eventually, requires};
use tempfile::TempDir;

use crate::GROUND;

/// Connects to every socket below a directory and sends a word.
const SPEAK: &str = "
import os, socket, sys
for place, _, names in os.walk('/shared'):
    for name in names:
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect(os.path.join(place, name))
            s.sendall(b'canary')
        except OSError as error:
            print(error)
";
/// How long a word may take that was sent.
const ARRIVAL: Duration = Duration::from_secs(2);

/// A directory of the machine with a service in it that serves every client of its socket.
struct Service {
    directory: TempDir,
    listener: UnixListener,
}

impl Service {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        std::fs::create_dir(directory.path().join("run")).expect("it is ours");
        let path = directory.path().join("run/service.sock");
        let listener = UnixListener::bind(&path).expect("it is ours");
        let open = || std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&path, open()).expect("it is ours");
        std::fs::set_permissions(directory.path(), open()).expect("it is ours");
        listener.set_nonblocking(true).expect("it is ours");
        Self { directory, listener }
    }

    /// Returns the words that mount its directory.
    fn mount(&self, access: &str) -> [String; 2] {
        ["--mount".to_owned(), format!("{}:/shared{access}", self.directory.path().display())]
    }

    /// Tells whether it has heard anything since it was last asked.
    fn heard(&self) -> bool {
        eventually(ARRIVAL, || {
            let mut word = String::new();
            let connection = self.listener.accept();
            let _ = connection.map(|(mut stream, _)| stream.read_to_string(&mut word));
            word.contains("canary")
        })
        .is_some()
    }
}

#[test]
fn bd_02_services_behind_sockets_in_a_mount_are_not_reached() {
    let service = Service::start();
    let title = "connect to a service of the machine whose socket is in a mounted directory";

    Attack::starred(GROUND, "BD-02", title)
        .by(&[Route::Create])
        .without(&["Sockets"])
        .every(&["mounted to be written", "mounted to be read"])
        .run(|arena| {
            let mut breaches = Breaches::new();
            for (access, how) in [("", "written"), (":ro", "read")] {
                let mount = service.mount(access);
                let flags: Vec<&str> = mount.iter().map(String::as_str).collect();
                arena.call_with(&flags, &["python3", "-c", SPEAK]).run();
                breaches.extend(service.heard().then(|| format!("heard, mounted to be {how}")));
            }
            breaches
        });
}

fn speak(home: &Home, service: &Service, access: &str, more: &[&str]) -> coracle_tests::Finished {
    let mount = service.mount(access);
    let words = ["run"].into_iter().chain(mount.iter().map(String::as_str)).chain(more.iter().copied());
    home.call(words.chain(["--", "python3", "-c", SPEAK])).run()
}

#[test]
fn sockets_in_a_mount_are_named_and_can_be_allowed() {
    requires!(native);
    let (home, service) = (Home::new(), Service::start());

    let refused = speak(&home, &service, "", &["--json"]).error();
    let allowed = speak(&home, &service, "", &["--allow-sockets"]).expect_code(0);
    let heard = service.heard();
    // Files of the sandbox's own stand in the place of the directory's.
    speak(&home, &service, ":overlay", &[]).expect_code(0);

    assert_eq!(refused["kind"], "invalid", "{refused}");
    assert_eq!(refused["details"]["socket"], "./run/service.sock", "{refused}");
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("--allow-sockets")), "{refused}");
    assert!(heard, "{allowed}");
    assert!(!service.heard(), "through an overlay");
}
