//! Spans of time and sizes, as people write them.

use coracle_tests::{Home, requires};

#[test]
fn spans_have_fractions_and_several_units() {
    requires!(native);
    let home = Home::new();

    for (ttl, seconds) in [("1m30s", 90), ("90", 90), ("1.5m", 90), ("1.5s", 2)] {
        let sandbox = home.open_with(&["--ttl", ttl]);
        let shown = home.call(["show", &sandbox, "--json"]).succeed().json();
        assert_eq!(shown["limits"]["timeout_seconds"], seconds, "{ttl}");
        home.call(["close", &sandbox]).succeed();
    }
    let cut =
        home.call(["run", "--timeout", "0.3s", "--json", "sleep", "1000"]).run().expect_code(124).json();
    assert!(cut["duration_ms"].as_u64().is_some_and(|millis| millis >= 300), "{cut}");
    for refused in ["", "soon", "1m30", "30s1m", "1.s"] {
        let error = home.call(["run", "--json", "--timeout", refused, "true"]).run().error();
        let message = error["message"].as_str().expect("a message");
        assert!(message.starts_with("`--timeout`"), "{message}");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("1m30s")), "{error}");
    }
}

#[test]
fn a_size_without_its_unit_is_asked_about() {
    requires!(native);
    let home = Home::new();

    for flag in ["--memory", "-m", "--disk"] {
        let error = home.call(["run", "--json", flag, "512", "true"]).run().error();
        assert_eq!(error["hint"], "did you mean `512m`?", "{error}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains("`--")), "{error}");
    }
    let sandbox = home.open_with(&["--memory", "0.25g"]);
    assert_eq!(home.call(["show", &sandbox, "--json"]).succeed().json()["limits"]["memory_mb"], 256);
    let spoken = home.call(["run", "--memory", "much", "true"]).run().expect_code(125);
    assert_eq!(
        spoken.stderr,
        "error: `--memory`: `much` is not a size\nhint: write a number and a unit, as in `512m` or `1.5g`\n"
    );
}

#[test]
fn the_life_of_a_token_needs_a_unit() {
    let home = Home::new();
    let create = |expires: &str| home.call(["token", "create", "--tenant", "a", "--expires", expires]).run();

    let refused = create("30").expect_code(125);
    assert_eq!(
        refused.stderr,
        "error: `--expires`: `30` has no unit, and would be 30s\nhint: did you mean `30d`?\n"
    );
    create("30d").expect_code(0);
    create("1h30m").expect_code(0);
}
