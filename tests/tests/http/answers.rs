//! Long output: an answer has the beginning and the end of it, and says how to read the rest.

use coracle_tests::http::Request;
use coracle_tests::{Daemon, Home, requires};
use serde_json::{Value, json};

/// Three mebibytes of numbered lines, and something on the other stream.
const LINES: &str = "seq -w 1 500000 | head -c 3000000; echo over >&2";

fn opened(daemon: &Daemon) -> String {
    let opened = Request::post("/v1/sandboxes", &json!({})).send(&daemon.unix()).expect(200);
    opened.json()["sandbox_id"].as_str().expect("an id").to_owned()
}

#[test]
fn long_output_has_both_ends_in_the_answer_and_the_rest_can_be_read() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let execs = format!("/v1/sandboxes/{}/execs", opened(&daemon));

    let ran = Request::post(&execs, &json!({"cmd": ["sh", "-c", LINES]})).send(&daemon.unix()).expect(200);

    let told = ran.json();
    let (rest, stdout) = (&told["rest"], told["stdout"].as_str().expect("text"));
    assert_eq!((&told["truncated"], &told["stderr"]), (&json!(true), &json!("over\n")), "{rest}");
    assert_eq!(told["truncation"]["bytes"], rest["bytes"]);
    assert_eq!(stdout.len() as u64 + rest["bytes"].as_u64().expect("a number"), 3_000_000);
    assert!(stdout.len() <= 1 << 20, "{}", stdout.len());
    let (head, tail) =
        stdout.split_at(usize::try_from(rest["stdout_at"].as_u64().expect("a number")).expect("small"));
    let whole = read_all(&daemon, &format!("{execs}/{}/output", told["exec_id"].as_str().expect("an id")));
    assert!(whole.len() == 3_000_000 && whole.starts_with(head) && whole.ends_with(tail));
    let until = rest["until_seq"].as_u64().expect("a number");
    assert!(rest["since_seq"].as_u64().is_some_and(|since| since < until), "{rest}");
    assert!(rest["hint"].as_str().is_some_and(|hint| hint.contains("sandbox_exec_read")), "{rest}");
}

#[test]
fn a_long_listing_has_its_beginning_in_the_answer() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = opened(&daemon);
    let make = json!({"cmd": ["sh", "-c", "mkdir many; cd many; seq -f %0200.0f 20000 | xargs touch"]});
    Request::post(&format!("/v1/sandboxes/{sandbox}/execs"), &make).send(&daemon.unix()).expect(200);

    let listed = Request::get(&format!("/v1/sandboxes/{sandbox}/fs/list?path=many&recursive=true"));
    let listed = listed.send(&daemon.unix()).expect(200);

    let count = listed.json()["entries"].as_array().map_or(0, Vec::len);
    assert!((1000..20_000).contains(&count), "{count}");
    assert_eq!(listed.json()["truncated"], true);
    assert_eq!(home.call(["fs", "list", &sandbox, "many"]).succeed().text().lines().count(), 20_000);
}

fn read_all(daemon: &Daemon, path: &str) -> String {
    let (mut whole, mut since) = (String::new(), 0);
    loop {
        let page = Request::get(&format!("{path}?since_seq={since}")).send(&daemon.unix()).expect(200).json();
        for chunk in page["chunks"].as_array().expect("a list") {
            since = chunk["seq"].as_u64().expect("a number");
            if chunk["stream"] == "stdout" {
                whole.push_str(chunk["text"].as_str().expect("text"));
            }
        }
        if page["done"] == true {
            return whole;
        }
    }
}

#[test]
fn the_answer_says_that_the_rest_is_gone_with_its_sandbox() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);

    let ran = Request::post("/v1/run", &json!({"cmd": ["sh", "-c", LINES]})).send(&daemon.unix()).expect(200);

    let told = ran.json();
    let bytes = told["rest"]["bytes"].as_u64().expect("a number");
    assert_eq!(told["stdout"].as_str().expect("text").len() as u64 + bytes, 3_000_000);
    assert_eq!((&told["truncated"], &told["rest"]["since_seq"]), (&json!(true), &Value::Null));
    assert!(told["rest"]["hint"].as_str().is_some_and(|hint| hint.contains("gone")), "{}", told["rest"]);
}

#[test]
fn how_long_answers_are_is_a_setting_and_the_command_line_has_no_bound() {
    requires!(native);
    let home = Home::new().env("CORACLE_INLINE_OUTPUT", "4096");
    let daemon = Daemon::start(&home);
    let sandbox = opened(&daemon);
    let execs = format!("/v1/sandboxes/{sandbox}/execs");
    let lines = |count: usize| json!({"cmd": ["sh", "-c", format!("yes | head -c {count}")]});

    let short = Request::post(&execs, &lines(4096)).send(&daemon.unix()).expect(200).json();
    let long = Request::post(&execs, &lines(4097)).send(&daemon.unix()).expect(200).json();
    let own = home.call(["exec", &sandbox, "--json", "--", "sh", "-c", "yes | head -c 2000000"]).succeed();

    assert_eq!((&short["truncated"], &short["rest"]), (&json!(false), &Value::Null));
    assert_eq!((&long["truncated"], &long["rest"]["bytes"]), (&json!(true), &json!(1)));
    assert_eq!(own.json()["stdout"].as_str().expect("text").len(), 2_000_000);
}
