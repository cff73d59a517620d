//! The suites that agents' frameworks have for sandboxes, through the adapters in `tests/adapters`.

use std::path::{Path, PathBuf};
use std::process::Command;

use coracle_tests::{Home, binary, peers, requires};

/// Runs the tests of one adapter and expects every one to pass: none skipped, none expected to fail.
#[track_caller]
fn expect_all(python: Result<PathBuf, String>, adapter: &str, count: usize) {
    let home = Home::new();
    let adapters = Path::new(env!("CARGO_MANIFEST_DIR")).join("adapters");
    let ran = Command::new(python.expect("it is there"))
        .args([
            "-m",
            "pytest",
            "-q",
            "--tb=short",
            "-p",
            "no:cacheprovider",
            "-o",
            "asyncio_mode=auto",
            "-W",
            "ignore",
        ])
        .arg(adapters.join(adapter))
        .env("CORACLE", binary::path())
        .env("CORACLE_HOME", home.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(home.path())
        .output()
        .expect("Python can be started");
    let told = String::from_utf8_lossy(&ran.stdout);
    let all = format!("{count} passed in ");
    let summary = told.lines().last().unwrap_or_default();
    assert!(summary.starts_with(&all), "{told}{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn inspect_ai_finds_no_fault() {
    requires!(inspect_ai);
    expect_all(peers::inspect_ai(), "test_inspect_ai.py", 44);
}

#[test]
fn langchain_finds_no_fault() {
    requires!(langchain);
    expect_all(peers::langchain(), "test_langchain.py", 86);
}
