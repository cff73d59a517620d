//! A command in the foreground ends with the process that runs it, however that dies; so does the sandbox of a `run`.

use std::process::{Command, Stdio};
use std::time::Duration;

use coracle_tests::{Call, Home, SOON, binary, eventually, requires};
use rustix::process::Signal;

/// A second, and what a machine as busy as they get may add. Without a tie it is minutes.
const AT_ONCE: Duration = Duration::from_secs(6);

/// What does not end by itself: it ignores what asks it to, and has a child in a session of its own.
fn stubborn(word: &str) -> String {
    format!("trap '' TERM HUP INT; setsid sleep {word} & echo started; while :; do sleep {word}; done")
}

fn expect_dead(home: &Home, word: &str) {
    let took = eventually(SOON, || home.census().named(word).is_empty());
    assert!(took.is_some_and(|took| took < AT_ONCE), "{took:?}: {}", home.census().describe());
}

/// Starts a command and waits until all of it runs.
fn started(home: &Home, word: &str, call: Call) -> coracle_tests::Started {
    let started = call.start();
    started.wait_for(|output| output.windows(7).any(|seen| seen == b"started"));
    eventually(SOON, || home.census().named(&format!("sleep {word}")).len() >= 2).expect("all of it runs");
    started
}

fn exec(home: &Home, sandbox: &str, flags: &[&str], word: &str) -> Call {
    let words = ["exec", sandbox].into_iter().chain(flags.iter().copied());
    home.call(words.chain(["--", "sh", "-c", &stubborn(word)]))
}

/// What a busy machine adds it does not add three times in a row.
#[test]
fn an_exec_ends_within_about_a_second_of_its_client() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let took = ["3101", "3102", "3103"].map(|word| {
        started(&home, word, exec(&home, &sandbox, &[], word)).kill();
        eventually(SOON, || home.census().named(word).is_empty()).expect("it ends")
    });

    assert!(took.iter().min() < Some(&Duration::from_millis(1_500)), "{took:?}");
}

#[test]
fn an_exec_ends_with_its_client_however_that_dies() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let deaths = [(Signal::KILL, "701.1"), (Signal::TERM, "701.2"), (Signal::HUP, "701.3")];
    for (signal, word) in deaths {
        let client = started(&home, word, exec(&home, &sandbox, &["--timeout", "none"], word));
        client.signal(signal);
        client.finish();
        expect_dead(&home, word);
    }

    let client = started(&home, "701.4", exec(&home, &sandbox, &["--tty"], "701.4"));
    client.kill();
    expect_dead(&home, "701.4");
    home.exec(&sandbox, ["true"]).succeed();
}

#[test]
fn without_root_an_exec_ends_with_its_client_too() {
    requires!(native);
    let home = Home::ordinary();
    let sandbox = home.open();

    started(&home, "702.1", exec(&home, &sandbox, &[], "702.1")).kill();

    expect_dead(&home, "702.1");
}

#[test]
fn a_captured_exec_ends_with_its_client() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let client = exec(&home, &sandbox, &["--json"], "703.1").start();
    eventually(SOON, || home.census().named("sleep 703.1").len() >= 2).expect("all of it runs");
    client.kill();

    expect_dead(&home, "703.1");
}

/// Through a shell, as people do it.
fn shell(home: &Home, script: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", script])
        .env("CORACLE_HOME", home.path())
        .env("CORACLE", binary::path())
        .stdin(Stdio::null())
        .output()
        .expect("a shell starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_closed_pipe_and_a_timeout_end_the_command() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let first = shell(&home, &format!("$CORACLE exec {sandbox} -- yes | head -1"));
    shell(&home, &format!("timeout 1 $CORACLE exec {sandbox} -- sh -c \"{}\"", stubborn("704.1")));

    assert_eq!(first, "y\n");
    expect_dead(&home, "yes ");
    expect_dead(&home, "sleep 704.1");
}

#[test]
fn a_closed_standard_error_ends_the_command() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let script = "while :; do echo y >&2; done; # 704.2";
    let first =
        shell(&home, &format!("$CORACLE exec {sandbox} -- sh -c '{script}' 2>&1 >/dev/null | head -1"));

    assert_eq!(first, "y\n");
    expect_dead(&home, "# 704.2");
}

#[test]
fn a_run_that_still_uploads_ends_with_a_signal() {
    requires!(native);
    let home = Home::new();
    let pipe = home.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is here").success());
    // Nothing ever comes out of it, and it is open.
    let source = format!("a={}", pipe.display());
    let run = home.call(["run", "--file", &source, "--", "sleep", "704.3"]).start();
    let _writer = std::fs::File::options().write(true).open(&pipe).expect("it is read");
    eventually(SOON, || !home.census().guests().is_empty()).expect("a sandbox is made");

    run.signal(Signal::TERM);

    assert_eq!(run.finish().code(), Some(143));
    assert!(eventually(SOON, || home.census().guests().is_empty()).is_some());
    home.call(["gc"]).succeed();
    home.expect_no_orphans();
}

#[test]
fn a_client_that_joins_to_have_a_command_run_on_unties_it() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let first = started(&home, "704.4", exec(&home, &sandbox, &["--id", "shared"], "704.4"));
    let joined = exec(&home, &sandbox, &["--id", "shared", "--keep-running"], "704.4").start();
    joined.wait_for(|output| output.starts_with(b"started"));
    first.kill();
    // A command that ends with its client would have ended by now.
    started(&home, "704.5", exec(&home, &sandbox, &[], "704.5")).kill();
    expect_dead(&home, "sleep 704.5");

    assert!(!home.census().named("sleep 704.4").is_empty());
    home.call(["stop", &sandbox, "shared", "--grace", "0"]).succeed();
    joined.finish();
}

#[test]
fn what_is_to_run_on_does() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let kept = started(&home, "705.1", exec(&home, &sandbox, &["--keep-running", "--id", "kept"], "705.1"));
    home.call(["exec", &sandbox, "--detach", "--id", "away", "--", "sh", "-c", &stubborn("705.2")]).succeed();
    // A client that only joins a detached command does not end it.
    let joined = home.call(["logs", "--follow", &sandbox, "away"]).start();
    joined.wait_for(|output| output == b"started\n");
    joined.kill();
    kept.kill();
    // A command that ends with its client would have ended by now.
    started(&home, "705.3", exec(&home, &sandbox, &[], "705.3")).kill();
    expect_dead(&home, "sleep 705.3");

    assert!(["705.1", "705.2"].iter().all(|word| home.census().named(word).len() >= 2));
    for id in ["kept", "away"] {
        home.call(["stop", &sandbox, id, "--grace", "0"]).succeed();
    }
}

#[test]
fn what_was_kept_in_the_background_outlives_its_client() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    home.call(["exec", &sandbox, "--keep-background", "--id", "e", "--", "sh", "-c", "sleep 706.1 & exit 0"])
        .succeed();
    started(&home, "706.2", exec(&home, &sandbox, &[], "706.2")).kill();
    expect_dead(&home, "sleep 706.2");

    assert_eq!(home.census().named("sleep 706.1").len(), 1);
    home.call(["stop", &sandbox, "e"]).succeed();
}

#[test]
fn a_killed_run_takes_its_sandbox_along() {
    requires!(native);
    let home = Home::new();

    for flags in [&["run"][..], &["run", "--network", "allow=example.test"], &["run", "--disk", "64m"]] {
        let words = flags.iter().copied().chain(["--", "sh", "-c"]).map(str::to_owned);
        let run = started(&home, "707.1", home.call(words.chain([stubborn("707.1")])));
        assert!(run.kill().was_killed());

        let took = eventually(SOON, || home.census().processes.is_empty());
        assert!(took.is_some_and(|took| took < AT_ONCE), "{flags:?}: {}", home.census().describe());
    }
    // The next call removes the files it left.
    home.call(["gc"]).succeed();
    home.expect_nothing_left();
    home.expect_no_orphans();
}

/// Before it could be tied to a connection it is tied to the process that makes it.
#[test]
fn a_run_that_is_killed_while_its_sandbox_is_made_takes_it_along() {
    requires!(native);
    for home in [Home::new(), Home::ordinary()] {
        for point in ["create.backend.after", "create.ready.after"] {
            let killed = home.call(["run", "--", "true"]).env("CORACLE_CRASH_AT", point).run();
            assert!(killed.was_killed(), "{killed}");

            let took = eventually(SOON, || home.census().processes.is_empty());
            assert!(took.is_some_and(|took| took < AT_ONCE), "{point}: {}", home.census().describe());
        }
        home.call(["gc"]).succeed();
        home.expect_no_orphans();
        // One that is opened to stay does.
        let stays = home.open();
        home.exec(&stays, ["true"]).succeed();
    }
}
