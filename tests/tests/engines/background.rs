//! On a container engine, too, output after the end of the leader is kept, or counted as dropped.

use coracle_tests::engines::docker;
use coracle_tests::{SOON, eventually, requires};
use serde_json::{Value, json};

/// More than the output that is kept.
const FLOOD: u64 = 8_000_000;

#[test]
fn output_after_the_leaders_end_is_kept_or_counted_on_docker() {
    requires!(docker);
    let home = docker().home();
    let sandbox = home.open_with(&["--output", "1m"]);
    let waited = |id: &str| -> Value { home.call(["wait", &sandbox, id, "--json"]).run().json() };
    let logs = |id: &str| home.call(["logs", &sandbox, id]).succeed();
    for (id, late) in [("little", "echo late".to_owned()), ("much", format!("head -c {FLOOD} /dev/zero"))] {
        let script = format!("(until [ -e go ]; do sleep 0.05; done; {late}) & echo early");
        home.call(["exec", &sandbox, "--keep-background", "--id", id, "--", "sh", "-c", &script]).succeed();
        assert_eq!(logs(id).text(), "early\n");
    }

    home.exec(&sandbox, ["touch", "go"]).succeed();

    let came = eventually(SOON, || logs("little").text() == "early\nlate\n");
    assert!(came.is_some(), "{}", logs("little"));
    let end = waited("little");
    assert_eq!((&end["stdout_bytes"], &end["truncated"]), (&json!(11), &json!(false)), "{end}");
    let all = eventually(SOON, || waited("much")["stdout_bytes"] == FLOOD + 6);
    let end = waited("much");
    assert!(all.is_some() && end["truncated"] == true, "{end}");
    let dropped = end["truncation"]["bytes"].as_u64().expect("a number");
    assert_eq!(logs("much").stdout_bytes + dropped, FLOOD + 6, "{end}");
}
