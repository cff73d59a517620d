//! What an owner keeps after it transferred its sandbox: no command, no hold, no influence on the pace.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coracle_tests::attack::machine;
use coracle_tests::{Arena, Attack, Breaches, Home, Route, SOON, count, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::GROUND;

/// The run a sandbox is handed to.
const NEXT: &str = "next";

/// Returns a number no other process has in its command line.
fn unique() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(8_100_000);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{number}{}", std::process::id())
}

/// Counts the commands inside sandboxes with this word; the calls that asked for them are not meant.
fn commands(home: &Home, word: &str) -> usize {
    let census = home.census();
    census.named(word).iter().filter(|process| !process.command.contains("coracle")).count()
}

/// Has the old owner start commands while it hands the sandbox over, and counts those it has afterwards.
fn race(arena: &Arena<'_>, rounds: usize) -> Breaches {
    let (home, sandbox) = (arena.home, arena.sandbox());
    let mut breaches = Breaches::new();
    for round in 0..rounds {
        let (word, exec) = (unique(), format!("race{round}"));
        let transfer = ["transfer", sandbox, "--to", NEXT, "--json"];
        let detach = ["exec", sandbox, "--detach", "--id", &exec, "--json", "--", "sleep", &word];
        // Each of the two is first by turns.
        let (first, second) = match round % 2 {
            0 => (home.call(detach).start(), home.call(transfer).start()),
            _ => (home.call(transfer).start(), home.call(detach).start()),
        };
        let (first, second) = (first.finish(), second.finish());
        let transferred = if round % 2 == 0 { second } else { first };
        if transferred.code() == Some(0) {
            if commands(home, &word) > 0 {
                breaches.push("a command of the old owner runs under the new one".to_owned());
            }
            home.call(["release", sandbox, "--run", NEXT, "--running", "kill"]).succeed();
        } else {
            assert_eq!(transferred.error_kind(), "conflict");
            home.call(["stop", sandbox, &exec]).run();
        }
        if !breaches.is_empty() {
            break;
        }
    }
    breaches
}

#[test]
fn ow_05_a_hand_over_leaves_no_command_behind() {
    let title = "start a command while the sandbox is handed over";
    Attack::starred(GROUND, "OW-05", title)
        .by(&[Route::Exec])
        .without(&["Handover"])
        .run(|arena| race(arena, count(24, 500)));
}

#[test]
fn ow_14_a_kill_that_could_not_be_told_comes_before_the_new_owner() {
    let _machine = machine();
    let title = "have the guest stopped while `--running kill` hands the sandbox over";
    Attack::row(GROUND, "OW-14", title).by(&[Route::Exec]).without(&["Handover"]).run(|arena| {
        let (home, sandbox, word) = (arena.home, arena.sandbox(), unique());
        home.call(["exec", sandbox, "--detach", "--", "sleep", &word]).succeed();
        let seen = eventually(SOON, || commands(home, &word) == 1);
        assert!(seen.is_some(), "the command runs");
        let guests: Vec<_> =
            home.census().guests().iter().filter_map(|pid| Pid::from_raw(*pid as i32)).collect();
        let signal = |signal| guests.iter().for_each(|pid| kill_process(*pid, signal).expect("it is ours"));

        signal(Signal::STOP);
        let transfer = ["transfer", sandbox, "--to", NEXT, "--running", "kill", "--json"];
        let told = home.call(transfer).within(Duration::from_secs(60)).run();
        signal(Signal::CONT);

        assert_eq!(told.expect_code(0).json()["owner"], NEXT);
        // The first command of the new owner looks itself; the brackets keep it from seeing itself.
        let (head, last) = word.split_at(word.len() - 1);
        let look = format!("grep -l '{head}[{last}]' /proc/[0-9]*/cmdline");
        let first = home.call(["exec", sandbox, "--run", NEXT, "--", "sh", "-c", &look]).run();
        let found = first.code() == Some(0) || commands(home, &word) > 0;
        found.then(|| "the old owner's command runs beside the new owner's".to_owned()).into_iter().collect()
    });
}

#[test]
fn ow_15_a_stopped_client_of_the_old_owner_holds_nothing_back() {
    let title = "attend a command, do not read, and hand the sandbox over with it";
    Attack::row(GROUND, "OW-15", title).by(&[Route::Exec]).without(&["Attendants"]).run(|arena| {
        let (home, sandbox) = (arena.home, arena.sandbox());
        let loud =
            "echo started; until [ -e go ]; do sleep 0.02; done; head -c 60000000 /dev/zero; touch finished";
        let client = home.call(["exec", sandbox, "--", "sh", "-c", loud]).start();
        client.wait_for(|output| output == b"started\n");
        client.signal(Signal::STOP);
        home.exec(sandbox, ["touch", "go"]).succeed();

        home.call(["transfer", sandbox, "--to", NEXT, "--running", "keep"]).succeed();
        let finished = eventually(Duration::from_secs(15), || {
            home.call(["fs", "stat", sandbox, "finished", "--run", NEXT]).run().code() == Some(0)
        });

        client.signal(Signal::CONT);
        client.kill();
        finished
            .is_none()
            .then(|| "the new owner waits for the old one's client".to_owned())
            .into_iter()
            .collect()
    });
}

#[test]
fn ow_16_a_stopped_fork_does_not_hold_a_sandbox() {
    let title = "stop while the sandbox is held for a fork";
    Attack::row(GROUND, "OW-16", title).by(&[Route::Exec]).without(&["Leases"]).run(|arena| {
        let (home, sandbox) = (arena.home, arena.sandbox());
        let fork = home.call(["fork", sandbox]).env("CORACLE_CRASH_AT", "stop:fork.hold.after").start();
        let status = format!("/proc/{}/status", fork.pid());
        let stands = || std::fs::read_to_string(&status).is_ok_and(|status| status.contains("State:\tT"));
        assert!(eventually(SOON, stands).is_some(), "it holds the sandbox");

        let used = home.exec(sandbox, ["true"]).run();

        fork.kill();
        let held = used.code() != Some(0);
        held.then(|| "the sandbox is of no use until the caller goes on".to_owned()).into_iter().collect()
    });
}
