//! The machine's clock jumps by years while a daemon and the command line work: nothing is destroyed, forgotten or done twice.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use coracle_tests::http::Request;
use coracle_tests::{Daemon, Home, count, requires};
use serde_json::{Value, json};

const DAY: i64 = 24 * 3_600_000;
const YEARS: i64 = 10 * 365 * DAY;
/// Where the clock is put, in milliseconds from where it is.
const JUMPS: [i64; 6] = [8 * DAY, YEARS, 0, -YEARS, YEARS, 0];

fn put(clock: &Path, offset: i64) {
    // Whole or not at all: others read it meanwhile.
    let draft = clock.with_extension("draft");
    std::fs::write(&draft, offset.to_string()).expect("writes");
    std::fs::rename(draft, clock).expect("renames");
}

fn id_of(answer: &Value) -> String {
    answer["sandbox_id"].as_str().expect("an id").to_owned()
}

#[test]
fn jumps_of_ten_years_under_load_destroy_nothing_and_double_nothing() {
    requires!(native);
    let directory = tempfile::tempdir().expect("a directory");
    let clock = directory.path().join("clock");
    put(&clock, 0);
    let home = Home::new().env("CORACLE_TEST_CLOCK", clock.to_string_lossy());
    let daemon = Daemon::start_with(&home, &[]);
    let beating = home.open_with(&["--key", "beating"]);
    home.call(["exec", &beating, "--detach", "--id", "beat", "--", "sleep", "600"]).succeed();
    let closed = home.open();
    home.call(["exec", &closed, "--id", "said", "--", "echo", "said"]).succeed();
    home.call(["close", &closed]).succeed();
    // Found without a record, as after an old database was put back.
    let stray = "sbx_01kca3t0m80000000000000000";
    std::fs::create_dir(home.path().join("sandboxes").join(stray)).expect("makes");
    home.call(["gc"]).succeed();
    let first_event =
        |home: &Home| home.call(["events", "--json"]).succeed().text().lines().next().map(str::to_owned);
    let began = first_event(&home);

    let over = AtomicBool::new(false);
    let opened: Vec<BTreeSet<String>> = std::thread::scope(|scope| {
        let load: Vec<_> = (0..count(2, 8))
            .map(|number| {
                let (over, place) = (&over, daemon.unix());
                scope.spawn(move || {
                    let mut ids = BTreeSet::new();
                    while !over.load(Ordering::Relaxed) {
                        let key = format!("request-{number}");
                        let keyed =
                            Request::post("/v1/sandboxes", &json!({})).header("Idempotency-Key", &key);
                        ids.insert(id_of(&keyed.send(&place).expect(200).json()));
                        let session = json!({ "session_key": format!("session-{number}") });
                        ids.insert(id_of(
                            &Request::post("/v1/sandboxes", &session).send(&place).expect(200).json(),
                        ));
                    }
                    ids
                })
            })
            .collect();
        for _ in 0..count(1, 10) {
            for offset in JUMPS {
                put(&clock, offset);
                home.call(["gc"]).succeed();
                home.call(["ps"]).succeed();
                assert_eq!(home.open_with(&["--key", "beating"]), beating, "the clock is {offset} ms off");
            }
        }
        over.store(true, Ordering::Relaxed);
        load.into_iter().map(|one| one.join().expect("no panic")).collect()
    });

    for ids in &opened {
        assert_eq!(ids.len(), 2, "one for the request's key and one for the session's: {ids:?}");
    }
    let state = |id: &str| {
        home.live().into_iter().find(|record| record["sandbox_id"] == *id).map(|one| one["state"].clone())
    };
    assert_eq!((state(&beating), state(stray)), (Some("ready".into()), Some("quarantined".into())));
    for id in opened.iter().flatten() {
        assert_eq!(state(id), Some("ready".into()), "{id}");
    }
    assert_eq!(home.live().len(), 2 + 2 * opened.len());
    assert_eq!(home.census().named("600").len(), 1, "what ran runs on");
    assert_eq!(home.call(["logs", &closed, "said"]).succeed().text(), "said\n");
    assert_eq!(first_event(&home), began, "no event is forgotten");
}
