//! One read returns one version of a file, even if another file takes its name.

use std::ffi::OsStr;
use std::fs::File;

use coracle_tests::http::Request;
use coracle_tests::swap::{SIZE, Swapped, expect_first_version, read_across};
use coracle_tests::{Daemon, Finished, Home, SOON, eventually, requires};
use rustix::process::Signal;

/// Long enough that `cp` is still reading when a test has seen it begin.
const LOCAL: u64 = 300_000_000;

#[test]
fn one_read_and_one_copy_are_of_one_version() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let file = Swapped { home: &home, sandbox: &sandbox };
    let inside = format!("{sandbox}:{}", Swapped::NAME);

    for words in [&["fs", "read", &sandbox, Swapped::NAME][..], &["cp", &inside, "-"]] {
        file.begin();

        expect_first_version(&file.read_across(home.call(words)));
    }
}

#[test]
fn a_file_that_becomes_shorter_meanwhile_is_an_error() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    Swapped { home: &home, sandbox: &sandbox }.begin();
    let call = home.call(["cp", &format!("{sandbox}:{}", Swapped::NAME), "-"]);

    let (read, end) = read_across(call, || {
        home.exec(&sandbox, ["truncate", "-s", "100", Swapped::NAME]).succeed();
    });

    assert!(end.expect_code(125).stderr.contains("became shorter while it was read"));
    assert!(read.len() < SIZE);
}

/// Copies a local file into a sandbox, and has it changed while `cp` reads it.
fn copied_across(home: &Home, to: &str, change: impl Fn(&File)) -> Finished {
    let file = tempfile::NamedTempFile::new().expect("a file can be made");
    file.as_file().set_len(LOCAL).expect("it takes no room");
    let call = home.call([OsStr::new("cp"), file.path().as_os_str(), OsStr::new(to)]).start();
    let is_open = || {
        let entries = std::fs::read_dir(format!("/proc/{}/fd", call.pid())).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.path().read_link().ok()).any(|target| target == file.path())
    };
    let said = || String::from_utf8_lossy(&call.stderr()).into_owned();
    assert!(eventually(SOON, is_open).is_some(), "it does not begin: {}", said());
    call.signal(Signal::STOP);
    change(file.as_file());
    call.signal(Signal::CONT);
    call.finish()
}

#[test]
fn a_copy_into_a_sandbox_is_of_the_size_at_opening_or_an_error() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let shorter = copied_across(&home, &format!("{sandbox}:short"), |file| file.set_len(10).expect("ours"));
    let longer = |file: &File| file.set_len(LOCAL + 1_000_000).expect("ours");
    copied_across(&home, &format!("{sandbox}:long"), longer).expect_code(0);

    assert!(shorter.expect_code(125).stderr.contains("became shorter while it was read"));
    let listed = home.exec(&sandbox, ["sh", "-c", "ls -A; stat -c %s long"]).succeed();
    assert_eq!(listed.text(), format!("long\n{LOCAL}\n"));
}

#[test]
fn one_download_is_of_one_version() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    let file = Swapped { home: &home, sandbox: &sandbox };
    file.begin();

    let opened = Request::get(&format!("/v1/sandboxes/{sandbox}/files?path={}", Swapped::NAME));
    let opened = opened.open(&daemon.unix()).expect("the daemon answers");
    file.swap();
    let answer = opened.whole().expect(200);

    expect_first_version(&answer.body);
    daemon.end();
}
