//! Threat LV-02: a crowd of connections takes every descriptor the daemon may have. No sandbox is taken for dead, and
//! every caller is served.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use coracle_tests::http::{Answer, DaemonAddress, Request};
use coracle_tests::{Daemon, Home, count, requires};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

/// How many files the daemon may have open, and how many clients connect.
const FILES: usize = 1024;
const CROWD: usize = 1400;

/// Ends the crowd, however the test ends.
struct Dispersal<'a>(&'a AtomicBool);

impl Drop for Dispersal<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How often the crowd looks which of its connections were ended.
const APART: Duration = Duration::from_millis(100);
/// How long one request may wait: half of the crowd may be before it, and a listener takes 41 of them in half a second. A
/// silent connection is given half a minute.
const PATIENCE: Duration = Duration::from_secs(25);

/// Holds connections that say nothing, and makes anew what the daemon ends.
fn crowd(addresses: &[DaemonAddress], over: &AtomicBool) {
    let connect = |number: usize| silent(&addresses[number % addresses.len()]).ok();
    let mut held: Vec<_> = (0..CROWD).map(connect).collect();
    while !over.load(Ordering::Relaxed) {
        for (number, stream) in held.iter_mut().enumerate() {
            let ended = stream.as_mut().is_none_or(|stream| match stream.read(&mut [0]) {
                Err(error) => error.kind() != ErrorKind::WouldBlock,
                Ok(_) => true,
            });
            if ended {
                *stream = connect(number);
            }
        }
        std::thread::sleep(APART);
    }
}

fn silent(address: &DaemonAddress) -> io::Result<Box<dyn Read>> {
    Ok(match address {
        DaemonAddress::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_nonblocking(true)?;
            Box::new(stream)
        }
        DaemonAddress::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_nonblocking(true)?;
            Box::new(stream)
        }
    })
}

/// Sends a request, which is answered in time.
#[track_caller]
fn served(request: &Request, address: &DaemonAddress) -> Answer {
    let at = Instant::now();
    let answer = request.send(address).expect(200);
    assert!(at.elapsed() < PATIENCE, "a caller at {address:?} waited for {:?}", at.elapsed());
    answer
}

#[test]
fn a_crowd_of_silent_connections_keeps_no_caller_out_and_ends_no_sandbox() {
    requires!(native);
    // This process holds the other ends.
    let own = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: own.maximum, maximum: own.maximum })
        .expect("it may be raised");
    let home = Home::new();
    let limit = format!("--nofile={FILES}:{FILES}");
    let serve = home.call(["serve", "--listen", "127.0.0.1:0"]).through(["prlimit", &limit]);
    let daemon = Daemon::from(serve, &home);
    let token = home.token("acme", &[]);
    let sandboxes: Vec<_> = (0..count(3, 12)).map(|_| home.open()).collect();
    // Long enough for two of the daemon's own sweeps, in a full run.
    let time = Duration::from_secs(count(10, 130) as u64);
    let (over, began) = (AtomicBool::new(false), Instant::now());

    std::thread::scope(|scope| {
        let _dispersal = Dispersal(&over);
        scope.spawn(|| crowd(&[daemon.unix(), daemon.tcp()], &over));
        let mut asked = 0;
        while began.elapsed() < time || asked < 5 {
            let path = format!("/v1/sandboxes/{}/execs", sandboxes[asked % sandboxes.len()]);
            let run = Request::post(&path, &json!({"cmd": ["echo", "hello"]}));
            let list = Request::get("/v1/sandboxes").token(&token);
            assert_eq!(served(&run, &daemon.unix()).json()["stdout"], "hello\n");
            served(&list, &daemon.tcp());
            asked += 1;
        }
    });

    let listed = Request::get("/v1/sandboxes").send(&daemon.unix()).expect(200).json();
    let listed = listed["sandboxes"].as_array().cloned().unwrap_or_default();
    for sandbox in &sandboxes {
        let row = listed.iter().find(|row| row["sandbox_id"] == **sandbox);
        assert_eq!(
            row.map(|row| &row["state"]),
            Some(&json!("ready")),
            "{sandbox}: {listed:?}\n{}",
            daemon.said()
        );
    }
    assert!(!daemon.said().contains("could not tidy up"), "{}", daemon.said());
}

/// The daemon raises its own limit only: commands see the same limit with and without it.
#[test]
fn commands_see_the_limit_they_see_without_a_daemon() {
    requires!(native);
    let home = Home::new();
    let soft = ["prlimit", "--nofile=512:4096"];
    let daemon = Daemon::from(home.call(["serve", "--listen", "127.0.0.1:0"]).through(soft), &home);
    let limits = json!({"cmd": ["sh", "-c", "ulimit -Sn; ulimit -Hn"]});

    let inside = Request::post("/v1/run", &limits).send(&daemon.unix()).expect(200).json();
    let without = home.call(["run", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn"]).through(soft).succeed();

    assert_eq!(inside["stdout"], without.text());
    let own = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).expect("the daemon runs");
    let own: Vec<_> = own.lines().filter(|line| line.starts_with("Max open files")).collect();
    assert!(own[0].split_whitespace().filter(|word| *word == "4096").count() == 2, "{own:?}");
}
