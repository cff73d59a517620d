//! DK: ways out of the family of an exec, where a subreaper and no cgroup holds it together; and more rights to try with.

use std::time::Duration;

use coracle_tests::attack::{IMAGE, engine, machine};
use coracle_tests::{Arena, Attack, Breaches, Route, SOON, eventually};

use crate::GROUND;

const INSTALL: &[&str] = &["--privileges", "install"];
/// How long what was killed may take to be gone.
const GONE: Duration = Duration::from_secs(10);
/// How long an exec may take to be stopped, whatever it does.
const STOPPING: Duration = SOON;

#[test]
fn dk_08_nobody_leaves_the_family_of_an_exec() {
    let title =
        "leave descendants behind: other sessions, reapers of their own, stopped, forking all the time";
    Attack::starred(GROUND, "DK-08", title).by(&[Route::Exec, Route::Transfer]).without(&["Killing"]).run(
        |arena| {
            let word = format!("left-{}", arena.route.name());
            let leaving =
                arena.call(&["python3", "-c", include_str!("payloads/leave_subreaper.py"), &word]).start();
            leaving.wait_for(|output| output.starts_with(b"left"));
            let gone = eventually(GONE, || arena.home.census().named(&word).is_empty());
            let left = arena.home.census().named(&word).len();
            leaving.kill();
            gone.is_none().then(|| format!("{left} processes live on")).into_iter().collect()
        },
    );
}

const BOMB: &str = include_str!("payloads/take_all_places.py");

#[test]
fn dk_09_a_sandbox_full_of_processes_is_still_its_owners() {
    let title = "take every place for a process there is: stopping, looking and the next command still work";
    let attempt = |arena: &Arena<'_>| -> Breaches {
        let bomb = arena.call_with(&["--id", "bomb"], &["python3", "-c", BOMB]).start();
        bomb.wait_for(|output| output.starts_with(b"full"));
        let shown = arena.home.call(["show", arena.sandbox(), "--json"]).run();
        let files = arena.file("list", &["."]).run();
        let stopped =
            arena.home.call(["stop", arena.sandbox(), "bomb", "--grace", "0"]).within(STOPPING).run();
        bomb.kill();
        let after = arena.call(&["true"]).run();
        let tried =
            [("show", shown), ("list files", files), ("stop", stopped), ("run a command afterwards", after)];
        let failed = tried.iter().filter(|(_, ran)| ran.code() != Some(0));
        failed.map(|(what, ran)| format!("could not {what}: {ran}")).collect()
    };
    let naive = || {
        let limits = [
            "run",
            "--detach",
            "--rm",
            "--network",
            "none",
            "--pids-limit",
            "64",
            IMAGE,
            "python3",
            "-c",
            BOMB,
        ];
        let ran = engine().client(limits).output().expect("`docker` can be started");
        let id = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
        let full = || {
            let said = engine().client(["logs", &id]).output().expect("`docker` can be started");
            said.stdout.starts_with(b"full\n")
        };
        eventually(STOPPING, full);
        // The engine may go beyond the limit; what it starts may not, and most of what is run starts something.
        let shell = ["exec", &id, "sh", "-c", "true | cat"];
        let entered = engine().client(shell).output().expect("`docker` can be started");
        let _ = engine().client(["rm", "--force", &id]).output();
        (!entered.status.success())
            .then(|| "`docker exec` cannot run a pipe".to_owned())
            .into_iter()
            .collect()
    };
    Attack::starred(GROUND, "DK-09", title)
        .by(&[Route::Exec])
        .with(&["--pids", "64"])
        .run_beside(attempt, naive);
}

#[test]
fn dk_10_installing_packages_administers_nothing() {
    let _machine = machine();
    let title = "system calls, sockets and devices that take more than the rights to install packages";
    Attack::starred(GROUND, "DK-10", title)
        .by(&[Route::Exec])
        .with(INSTALL)
        .without(&["Seccomp", "Capabilities", "NoNewPrivileges", "Landlock"])
        .every(&["open_by_handle_at", "name_to_handle_at", "ptrace", "family 17 opened", "family 40"])
        .run(|arena| {
            let calls = arena.confess(include_str!("../attack/payloads/call_kernel.py"), &[]);
            let sockets = arena.confess(include_str!("../attack/payloads/open_sockets.py"), &[]);
            let devices = arena.confess(include_str!("../attack/payloads/open_devices.py"), &[]);
            calls.into_iter().chain(sockets).chain(devices).collect()
        });
}

#[test]
fn dk_11_installing_packages_does_not_make_one_the_guest() {
    let title = "become the guest's user with the right to become any, by every call there is";
    let payload = include_str!("payloads/become_guest.py");
    Attack::starred(GROUND, "DK-11", title).by(&[Route::Exec]).with(INSTALL).without(&["Seccomp"]).run(
        |arena| {
            arena.watch(&["python3", "-c", payload], |process| {
                let is_guest = || {
                    let status =
                        std::fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
                    let ids =
                        status.lines().find(|line| line.starts_with("Uid:")).unwrap_or_default().to_owned();
                    ids.split_whitespace().any(|id| id == "65535")
                };
                let became = eventually(Duration::from_secs(2), is_guest);
                became.map(|_| "became the guest's user".to_owned()).into_iter().collect()
            })
        },
    );
}
