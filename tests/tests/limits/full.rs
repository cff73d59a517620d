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
fn gc_finishes_a_teardown_that_was_killed_on_a_full_disk() {
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

/// Writes files until it has failed often enough, and prints those that the kernel has synced, with their digests.
const WRITE: &str = "
import hashlib, os, sys
failed, number = 0, 0
while failed < 8 and number < 400:
    name, data = f'{sys.argv[1]}/{number}', os.urandom(64 << 10)
    number += 1
    try:
        file = os.open(name, os.O_WRONLY | os.O_CREAT)
        os.write(file, data)
        os.fsync(file)
        print(name, hashlib.sha256(data).hexdigest())
    except OSError:
        failed += 1
";

/// Reads them again, from the disk and not from memory, and counts those that are whole.
const COMPARE: &str = "
import hashlib, os, sys
whole = 0
for line in sys.argv[1].splitlines():
    name, digest = line.split()
    file = os.open(name, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    whole += hashlib.sha256(open(name, 'rb').read()).hexdigest() == digest
print(whole)
";

#[test]
fn what_was_synced_while_the_disk_filled_up_is_there() {
    requires!(native);
    for kind in Filesystem::KINDS {
        // The workspace is a directory of the sandbox's disk, the rest of its files is a layer on it.
        for place in ["/workspace", "/var/tmp"] {
            let small = Small::new(kind);
            let home = &small.home;
            let sandbox = home.open_with(&["--disk", "200m"]);
            small.disk.fill();
            small.disk.spare(2 << 20, 8);

            let written = home.exec(&sandbox, ["python3", "-c", WRITE, place]).succeed().text().to_owned();
            small.disk.clear();
            let compared = home.exec(&sandbox, ["python3", "-c", COMPARE, &written]).succeed();

            let safe = written.lines().count();
            assert!((1..400).contains(&safe), "{kind:?} {place}: the disk was not filled: {safe}");
            assert_eq!(compared.text().trim(), safe.to_string(), "{kind:?} {place}");
        }
    }
}

#[test]
fn below_the_reserve_nothing_new_is_made_and_doctor_metrics_and_events_say_so() {
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
    // Existing sandboxes work.
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
