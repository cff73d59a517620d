//! Output outlives the client that started the command: numbered, complete, each chunk exactly once.

use coracle_tests::{Finished, Home, Started, requires};
use serde_json::Value;

/// A thousand lines over five seconds, then exit code 7.
const THOUSAND_LINES: &str = "
import time, sys
for n in range(1000):
    print('line', n, flush=True)
    time.sleep(0.005)
sys.exit(7)
";

fn thousand_lines() -> String {
    (0..1000).map(|n| format!("line {n}\n")).collect()
}

fn follow(home: &Home, sandbox: &str, exec: &str, since: u64) -> Started {
    home.call(["logs", sandbox, exec, "--since-seq", &since.to_string(), "--follow", "--json"]).start()
}

/// Returns the chunks in whole lines of `logs --json`; the last line may be cut off where the reader was killed.
fn chunks(output: &[u8]) -> Vec<(u64, String)> {
    let whole = output.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = output[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let values = lines.map(|line| serde_json::from_slice::<Value>(line).expect("each line is JSON"));
    values.filter_map(|value| Some((value["seq"].as_u64()?, value["text"].as_str()?.to_owned()))).collect()
}

fn expect_each_line_once(pieces: &[(u64, String)]) {
    let sequence: Vec<u64> = pieces.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(sequence, (1..=pieces.len() as u64).collect::<Vec<_>>(), "chunks count from 1 without a gap");
    let text: String = pieces.iter().map(|(_, text)| text.as_str()).collect();
    assert!(text == thousand_lines(), "the lines differ");
}

#[test]
fn a_follower_gets_each_line_once_though_the_starter_was_killed() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let words = ["exec", &sandbox, "--keep-running", "--id", "lines", "--", "python3", "-c", THOUSAND_LINES];
    let starter = home.call(words).start();
    starter.wait_for(|output| output.ends_with(b"\n"));

    assert!(starter.kill().was_killed());
    let plain = home.call(["logs", &sandbox, "lines", "--since-seq", "0", "--follow"]).start();
    let numbered = follow(&home, &sandbox, "lines", 0).finish();

    expect_each_line_once(&chunks(&numbered.stdout));
    assert!(plain.finish().text() == thousand_lines());
    home.call(["wait", &sandbox, "lines"]).run().expect_code(7);
}

#[test]
fn a_detached_exec_is_followed_from_another_process() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let detached = home.call(["exec", &sandbox, "--detach", "--", "python3", "-c", THOUSAND_LINES]).succeed();
    let exec = detached.text().trim_end().to_owned();
    assert!(exec.starts_with("exec_"), "{detached}");

    expect_each_line_once(&chunks(&follow(&home, &sandbox, &exec, 0).finish().stdout));
    home.call(["wait", &sandbox, &exec]).run().expect_code(7);
}

#[test]
fn a_reader_killed_in_the_middle_goes_on_where_it_was() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--detach", "--id", "lines", "--", "python3", "-c", THOUSAND_LINES])
        .succeed();

    let mut pieces = Vec::new();
    for part in 1..=4 {
        let reader = follow(&home, &sandbox, "lines", pieces.len() as u64);
        let wanted = part * 200;
        let so_far = pieces.iter().map(|(_, text): &(u64, String)| text.lines().count()).sum::<usize>();
        reader.wait_for(|output| so_far + chunks(output).len() >= wanted);
        pieces.extend(chunks(&reader.kill().stdout));
    }
    pieces.extend(chunks(&follow(&home, &sandbox, "lines", pieces.len() as u64).finish().stdout));

    expect_each_line_once(&pieces);
    home.call(["wait", &sandbox, "lines"]).run().expect_code(7);
}

#[test]
fn many_readers_see_the_same() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--detach", "--id", "lines", "--", "python3", "-c", THOUSAND_LINES])
        .succeed();

    let readers: Vec<_> = (0..10).map(|_| follow(&home, &sandbox, "lines", 0)).collect();

    for reader in readers {
        expect_each_line_once(&chunks(&reader.finish().stdout));
    }
}

#[test]
fn waiting_and_reading_come_back_after_the_end_too() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--id", "short", "--", "sh", "-c", "echo one; echo two >&2; exit 3"])
        .run()
        .expect_code(3);

    let all: Finished = home.call(["logs", &sandbox, "short"]).succeed();
    let after = home.call(["logs", &sandbox, "short", "--since-seq", "1", "--json"]).succeed();

    assert!(all.text().contains("one"), "{all}");
    // Which of two pipes is read first is not the order they were written in.
    let after_first = chunks(&after.stdout);
    let [(2, second)] = after_first.as_slice() else { panic!("{after}") };
    assert!(["one\n", "two\n"].contains(&second.as_str()), "{second}");
    home.call(["wait", &sandbox, "short"]).run().expect_code(3);
}
