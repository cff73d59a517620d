//! Output: counted exactly, kept within bounds, whatever the command writes.

use std::time::Duration;

use base64::Engine;
use coracle_tests::call::peak_memory;
use coracle_tests::{Finished, Home, requires};
use serde_json::Value;

const GIBIBYTE: u64 = 1 << 30;
/// Ten megabytes are kept; a copy as text, a copy as JSON and the program itself come on top.
const MEMORY_MAX: u64 = 96 << 20;
/// The guest holds the spool and little else.
const GUEST_MEMORY_MAX: u64 = 32 << 20;
const KEPT: u64 = 10_000_000;

/// Writes `bytes` times `x`, without a newline.
fn flood(bytes: u64) -> String {
    format!("head -c {bytes} /dev/zero | tr '\\0' x")
}

fn kept(reply: &Value) -> u64 {
    match (reply["stdout"].as_str(), reply["stdout_b64"].as_str()) {
        (_, Some(encoded)) => {
            base64::engine::general_purpose::STANDARD.decode(encoded).expect("base64").len() as u64
        }
        (Some(text), None) => text.len() as u64,
        (None, None) => 0,
    }
}

fn expect_modest(finished: &Finished) {
    assert!(finished.peak_memory > 0, "the peak was not seen, so this proves nothing");
    assert!(finished.peak_memory < MEMORY_MAX, "coracle itself took {} MiB", finished.peak_memory >> 20);
}

#[test]
fn a_gibibyte_without_a_newline_is_counted_to_the_byte() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let call = home.call(["exec", &sandbox, "--json", "--", "sh", "-c", &flood(GIBIBYTE)]);
    let ran = call.within(Duration::from_secs(120)).succeed();

    let reply = ran.json();
    assert_eq!(reply["truncated"], true);
    let dropped = reply["truncation"]["bytes"]
        .as_u64()
        .unwrap_or_else(|| panic!("no truncation: {}", reply["truncation"]));
    assert_eq!(kept(&reply) + dropped, GIBIBYTE, "kept and dropped are all there was");
    assert!(kept(&reply) <= KEPT && kept(&reply) >= KEPT / 2, "{} bytes kept", kept(&reply));
    expect_modest(&ran);
    for guest in home.census().guests() {
        let peak = peak_memory(guest).expect("the guest is alive");
        assert!(peak < GUEST_MEMORY_MAX, "the guest took {} MiB", peak >> 20);
    }
}

#[test]
fn a_gibibyte_on_the_terminal_does_not_fill_memory() {
    requires!(native);
    let home = Home::new();

    let call = home.call(["run", "--", "sh", "-c", &flood(GIBIBYTE)]).within(Duration::from_secs(120));
    let ran = call.succeed();

    assert!(ran.stdout_bytes >= KEPT / 2 && ran.stdout_bytes <= GIBIBYTE, "{} bytes", ran.stdout_bytes);
    expect_modest(&ran);
}

#[test]
fn a_reader_that_does_not_read_blocks_no_other() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--detach", "--id", "flood", "--", "sh", "-c", &flood(200 << 20)]).succeed();

    let waited = home.call(["wait", &sandbox, "flood", "--json"]).succeed().json();

    assert_eq!(waited["outcome"]["kind"], "exited", "{waited}");
    assert_eq!(waited["truncated"], true, "{waited}");
    let first = home
        .operation(
            "sandbox_exec_read",
            &serde_json::json!({"sandbox_id": sandbox, "exec_id": "flood", "since_seq": 0, "max_chunks": 1}),
        )
        .succeed();
    assert_eq!(first.json()["chunks"][0]["seq"], 1, "the head is kept");
}

#[test]
fn output_under_the_bound_is_whole() {
    requires!(native);
    let home = Home::new();

    let ran = home.call(["run", "--json", "--", "sh", "-c", &flood(9_000_000)]).succeed();

    let reply = ran.json();
    assert_eq!((kept(&reply), &reply["truncated"]), (9_000_000, &false.into()));
}

#[test]
fn output_that_is_not_utf8_is_whole_too() {
    requires!(native);
    let home = Home::new();
    let all_bytes = "import os; os.write(1, bytes(range(256)) * 64)";

    let plain = home.call(["run", "--", "python3", "-c", all_bytes]).succeed();
    let reply = home.call(["run", "--json", "--", "python3", "-c", all_bytes]).succeed().json();

    let expected: Vec<u8> = (0..=255u8).cycle().take(256 * 64).collect();
    assert!(plain.stdout == expected);
    let decoded =
        base64::engine::general_purpose::STANDARD.decode(reply["stdout_b64"].as_str().expect("stdout_b64"));
    assert!(decoded.expect("base64") == expected);
}
