//! One read returns one version of a file, even if another file takes its name.

use coracle_tests::http::Request;
use coracle_tests::swap::{SIZE, Swapped, expect_first_version, read_across};
use coracle_tests::{Daemon, Home, requires};

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
