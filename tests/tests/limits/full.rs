//! The disk of the home is full: freeing works, what was synced is there, and nothing new is made before it comes to that.

use coracle_tests::filesystem::{Filesystem, Kind};
use coracle_tests::http::Request;
use coracle_tests::{Daemon, Home, count, requires};
use serde_json::json;

/// A home on a small filesystem. The home goes first.
struct Small {
    home: Home,
    disk: Filesystem,
}

impl Small {
    fn new(kind: Kind) -> Self {
        let disk = Filesystem::new(kind);
        Self { home: Home::on(&disk.root()), disk }
    }

    /// Opens a sandbox with a disk of its own in which a command has run.
    fn open(&self, flags: &[&str]) -> String {
        let sandbox = self.home.open_with(&[&["--disk", "8m"], flags].concat());
        self.home.exec(&sandbox, ["sh", "-c", "echo out; echo x > file"]).succeed();
        sandbox
    }
}

#[test]
fn at_the_last_byte_and_inode_closing_gc_and_purge_work() {
    requires!(native);
    for kind in Filesystem::KINDS {
        let small = Small::new(kind);
        let home = &small.home;
        let (closed, half) = (small.open(&[]), small.open(&["--network", "allow=ok.test"]));
        small.open(&["--mount", "cache:/cache"]);
        assert!(home.instance().is_some());
        let killed = home.call(["close", &half]).env("CORACLE_CRASH_AT", "destroy.row.after").run();
        assert!(killed.was_killed(), "{kind:?}: {killed}");

        small.disk.fill();
        home.call(["close", &closed]).succeed();
        small.disk.fill();
        let swept = home.call(["gc", "--json"]).succeed().json();
        small.disk.fill();
        let purged = home.call(["purge", "--yes", "--json"]).succeed().json();

        assert_eq!((&swept["finished"], &swept["trouble"]), (&1.into(), &json!([])), "{kind:?}: {swept}");
        assert_eq!(
            (&purged["purged"], &purged["sandboxes"]),
            (&true.into(), &1.into()),
            "{kind:?}: {purged}"
        );
        home.expect_nothing_left();
        assert!(!home.path().exists(), "{kind:?}: the home is left");
    }
}

#[test]
fn whoever_is_killed_while_freeing_on_a_full_disk_is_followed_by_gc() {
    requires!(native);
    let points = ["native.destroy.killed", "destroy.row.after", "destroy.backend.after", "destroy.end.after"];
    for (number, point) in points.into_iter().take(count(2, 4)).enumerate() {
        let small = Small::new(Filesystem::KINDS[number % 2]);
        let sandbox = small.open(&[]);
        small.disk.fill();

        let killed = small.home.call(["close", &sandbox]).env("CORACLE_CRASH_AT", point).run();
        small.disk.fill();
        let swept = small.home.call(["gc", "--json"]).succeed().json();

        assert!(killed.was_killed(), "{point}: {killed}");
        assert_eq!(swept["trouble"], json!([]), "{point}: {swept}");
        small.home.expect_nothing_left();
        small.disk.clear();
        small.home.call(["close", &small.open(&[])]).succeed();
        let left = small.home.call(["doctor", "--json"]).succeed().json();
        assert_eq!(left["storage"]["ballast_bytes"], 4 << 20, "{point}: it is held back again: {left}");
    }
}

#[test]
fn below_the_reserve_nothing_new_is_made_and_everybody_is_told() {
    requires!(native);
    let small = Small::new(Kind::Tmpfs);
    let home = &small.home;
    let sandbox = small.open(&["--key", "kept"]);
    small.disk.fill();
    small.disk.spare(2 << 20, 500);

    let refused = [
        home.call(["open", "--json"]).run(),
        home.call(["run", "--json", "--", "true"]).run(),
        home.call(["fork", &sandbox, "--json"]).run(),
        home.call(["snapshot", &sandbox, "--json"]).run(),
        home.call(["image", "pull", "ok.test/a/b", "--json"]).run(),
        home.call(["open", "--image", "ok.test/a/b", "--json"]).run(),
    ];
    for call in &refused {
        assert_eq!(call.json()["error"]["kind"], "limit_exceeded", "{call}");
    }
    assert_eq!(refused[0].json()["error"]["details"]["limit"], "storage.reserve");
    // What is there can be used.
    assert_eq!(home.open_with(&["--key", "kept"]), sandbox);
    home.exec(&sandbox, ["cat", "file"]).succeed();
    let low = home.call(["doctor", "--json"]).succeed().json();
    assert_eq!(low["storage"]["low"], true, "{low}");
    let daemon = Daemon::start(home);
    let metrics = Request::get("/metrics").send(&daemon.unix()).expect(200);
    assert!(String::from_utf8_lossy(&metrics.body).contains("\ncoracle_storage_low 1\n"));
    daemon.end();

    small.disk.clear();
    let another = home.open();
    home.call(["close", &another]).succeed();
    let told =
        home.call(["events", "--json", "--kind", "storage_low", "--kind", "storage_recovered"]).succeed();
    let kinds: Vec<_> = told
        .text()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("an event")["kind"].clone())
        .collect();
    assert_eq!(kinds, ["storage_low", "storage_recovered"], "{told}");
}
