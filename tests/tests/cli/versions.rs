//! What is read of a file is of one file, whatever has its name by the end.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use coracle_tests::http::Request;
use coracle_tests::{Call, Daemon, Home, requires};

const SIZE: usize = 16 << 20;
const SWAP: &str = "head -c 16777216 /dev/zero | tr '\\0' b > other; mv other file";

fn open_with_file(home: &Home) -> String {
    let sandbox = home.open();
    home.exec(&sandbox, ["sh", "-c", "head -c 16777216 /dev/zero | tr '\\0' a > file"]).succeed();
    sandbox
}

/// Makes a call whose standard output, a pipe, is read only after the file was swapped.
fn read_across_a_swap(home: &Home, sandbox: &str, call: Call) -> Vec<u8> {
    let room = tempfile::tempdir().expect("a directory can be made");
    let pipe = room.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .expect("the directory is ours");
    let call = call.through(["sh", "-c", "exec \"$@\" > \"$0\"", &pipe.display().to_string()]).start();

    let read = drain(home, sandbox, &pipe);
    call.finish().expect_code(0);
    read
}

fn drain(home: &Home, sandbox: &str, pipe: &Path) -> Vec<u8> {
    let mut reader = File::open(pipe).expect("the call opens its end");
    let mut read = vec![0; 1];
    reader.read_exact(&mut read).expect("the file begins");
    home.exec(sandbox, ["sh", "-c", SWAP]).succeed();
    reader.read_to_end(&mut read).expect("the file ends");
    read
}

#[track_caller]
fn expect_one_version(read: &[u8]) {
    assert_eq!(read.len(), SIZE);
    assert!(read.iter().all(|byte| *byte == b'a'), "it is mixed");
}

#[test]
fn one_read_and_one_copy_are_of_one_version() {
    requires!(native);
    let home = Home::new();

    for words in [&["fs", "read"][..], &["cp"]] {
        let sandbox = open_with_file(&home);
        let place = format!("{sandbox}:file");
        let rest = if words.len() == 1 { [place.as_str(), "-"] } else { [sandbox.as_str(), "file"] };
        let call = home.call(words.iter().chain(&rest));

        expect_one_version(&read_across_a_swap(&home, &sandbox, call));
        home.call(["close", &sandbox]).succeed();
    }
}

#[test]
fn one_download_is_of_one_version() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = open_with_file(&home);

    let opened = Request::get(&format!("/v1/sandboxes/{sandbox}/files?path=file")).open(&daemon.unix());
    let opened = opened.expect("the daemon answers");
    home.exec(&sandbox, ["sh", "-c", SWAP]).succeed();
    let answer = opened.whole().expect(200);

    expect_one_version(&answer.body);
    daemon.end();
}
