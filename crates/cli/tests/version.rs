//! The binary exists and starts. Building this test builds it, with the features the suites are built with.

use std::process::Command;

#[test]
fn the_binary_says_its_version() {
    let output = Command::new(env!("CARGO_BIN_EXE_coracle")).arg("--version").output().expect("it starts");

    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), concat!("coracle ", env!("CARGO_PKG_VERSION"), "\n"));
}
