//! What `ps` shows of an expired sandbox an hour later and a week later.

use std::path::PathBuf;

use coracle_tests::{Call, Home, SOON, eventually, requires};
use serde_json::Value;
use tempfile::TempDir;

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

/// A machine whose clocks can be moved: the one people set, and the time since its start, which cannot be set
/// but for processes in a namespace. By one of them alone nothing gets older.
struct Clocks {
    directory: TempDir,
}

impl Clocks {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory can be made") }
    }

    /// Returns the file that says by how much the first is off.
    fn file(&self) -> PathBuf {
        self.directory.path().join("clock")
    }

    /// Has a call made so many seconds from now.
    fn later(&self, seconds: u64, call: Call) -> Call {
        std::fs::write(self.file(), (seconds * 1000).to_string()).expect("the directory is ours");
        call.through(["unshare", "--time", "--boottime", &seconds.to_string(), "--fork", "--"])
    }
}

fn ids(listed: &Value) -> Vec<&str> {
    listed.as_array().into_iter().flatten().filter_map(|one| one["sandbox_id"].as_str()).collect()
}

#[test]
fn an_expired_sandbox_is_listed_for_an_hour_and_known_for_a_week() {
    requires!(boot_time);
    let clocks = Clocks::new();
    let home = Home::new().env("CORACLE_TEST_CLOCK", clocks.file().to_string_lossy());
    let sandbox = home.open_with(&["--ttl", "500ms", "--on-idle", "destroy"]);
    eventually(SOON, || home.census().guests().is_empty()).expect("it is idle");
    assert_eq!(home.live()[0]["state"], "expired");
    let later = |seconds: u64, words: &[&str]| clocks.later(seconds, home.call(words));
    let listed = |seconds: u64, words: &[&str]| ids(&later(seconds, words).succeed().json()) == [&sandbox];

    assert!(listed(59 * MINUTE, &["ps", "--json"]));
    assert!(!listed(62 * MINUTE, &["ps", "--json"]));
    assert!(listed(62 * MINUTE, &["ps", "--all", "--json"]));
    later(6 * DAY, &["gc"]).succeed();
    assert_eq!(later(6 * DAY, &["show", &sandbox, "--json"]).succeed().json()["state"], "expired");

    later(8 * DAY, &["gc"]).succeed();
    assert!(!listed(8 * DAY, &["ps", "--all", "--json"]));
    assert_eq!(later(8 * DAY, &["show", &sandbox, "--json"]).run().error_kind(), "not_found");
}
