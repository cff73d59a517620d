//! On a container engine commands have the deadlines they have on `native`, and none with `none`.

use coracle_tests::engines::docker;
use coracle_tests::requires;
use serde_json::json;

/// What outlives the usual deadline below, and says so.
const LONG: &str = "sleep 1.5; exit 7";

#[test]
fn a_command_has_the_deadline_that_is_usual_written_or_the_most_on_docker() {
    requires!(docker);
    let home = docker().home().env("CORACLE_EXEC_TIMEOUT", "500ms");
    let sandbox = home.open();
    let exec = |flags: &[&str]| {
        let words = ["exec", &sandbox, "--json"].into_iter().chain(flags.iter().copied());
        home.call(words.chain(["--", "sh", "-c", LONG]))
    };
    let most = |flags: &[&str]| exec(flags).env("CORACLE_EXEC_TIMEOUT_MAX", "1s").run();

    exec(&["--detach", "--id", "free"]).succeed();
    most(&["--detach", "--id", "capped"]).expect_code(0);
    exec(&[]).run().expect_code(124);
    exec(&["--timeout", "none"]).run().expect_code(7);

    for refused in [["--timeout", "none"], ["--timeout", "2s"]] {
        let error = most(&refused).error();
        let told = (&error["kind"], &error["details"]["max_ms"]);
        assert_eq!(told, (&json!("invalid"), &json!(1000)), "{error}");
    }
    home.call(["wait", &sandbox, "free"]).run().expect_code(7);
    home.call(["wait", &sandbox, "capped"]).run().expect_code(124);
}
