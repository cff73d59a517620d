//! On a container engine, too, one read returns one version of a file, even if another file takes its name.

use coracle_tests::engines::docker;
use coracle_tests::http::Request;
use coracle_tests::swap::{Swapped, expect_first_version};
use coracle_tests::{Daemon, requires};

#[test]
fn one_read_one_copy_and_one_download_are_of_one_version_on_docker() {
    requires!(docker);
    let home = docker().home();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    let file = Swapped { home: &home, sandbox: &sandbox };
    let inside = format!("{sandbox}:{}", Swapped::NAME);

    for words in [&["fs", "read", &sandbox, Swapped::NAME][..], &["cp", &inside, "-"]] {
        file.begin();

        expect_first_version(&file.read_across(home.call(words)));
    }

    file.begin();
    let opened = Request::get(&format!("/v1/sandboxes/{sandbox}/files?path={}", Swapped::NAME));
    let opened = opened.open(&daemon.unix()).expect("the daemon answers");
    file.swap();

    expect_first_version(&opened.whole().expect(200).body);
    daemon.end();
}
