//! Output outlives its sandbox for a while.

use coracle_tests::{Home, SOON, eventually, requires};

fn closed(home: &Home) -> String {
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--id", "once", "--", "sh", "-c", "echo out; echo err >&2; exit 3"])
        .run()
        .expect_code(3);
    home.call(["close", &sandbox]).succeed();
    sandbox
}

#[test]
fn output_and_end_of_a_closed_sandbox_are_there() {
    requires!(native);
    let home = Home::new();
    let sandbox = closed(&home);

    let logs = home.call(["logs", &sandbox, "once"]).succeed();
    let followed = home.call(["logs", "--follow", &sandbox, "once"]).run().expect_code(3);

    assert_eq!(logs.text(), "out\n");
    assert_eq!(logs.stderr, "err\nnote: exec `once` has ended: exited with 3\n");
    assert_eq!(followed.text(), "out\n");
    home.call(["wait", &sandbox, "once"]).run().expect_code(3);
    let other = home.call(["logs", &sandbox, "once", "--run", "run_other", "--json"]).run();
    assert_eq!(other.error_kind(), "not_found");
}

#[test]
fn kept_output_is_removed_after_its_retention() {
    requires!(native);
    let home = Home::new().env("CORACLE_LOGS_RETENTION", "300ms");
    let sandbox = closed(&home);

    let gone = eventually(SOON, || home.call(["logs", &sandbox, "once"]).run().code() != Some(0));
    home.call(["gc"]).succeed();

    assert!(gone.is_some());
    let left = std::fs::read_dir(home.path().join("logs")).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}

#[test]
fn a_kill_while_closing_leaves_nothing_half_written() {
    requires!(native);
    for point in ["destroy.row.after", "destroy.logs.written", "destroy.logs.after"] {
        let home = Home::new();
        let sandbox = home.open();
        home.call(["exec", &sandbox, "--id", "once", "--", "echo", "out"]).succeed();
        let killed = home.call(["close", &sandbox]).env("CORACLE_CRASH_AT", point).run();
        assert!(killed.was_killed(), "{point}");

        home.call(["gc"]).succeed();

        assert_eq!(home.call(["logs", &sandbox, "once"]).succeed().text(), "out\n", "{point}");
        let names = std::fs::read_dir(home.path().join("logs")).expect("it is there").flatten();
        let drafts = names.filter(|entry| entry.path().extension().is_some_and(|end| end == "draft")).count();
        assert_eq!(drafts, 0, "{point}");
    }
}
