//! The container engine is killed and started again during commands, creation and removal.

use std::time::Duration;

use coracle_tests::engines::relay::Relay;
use coracle_tests::engines::{Containers, Ending};
use coracle_tests::{count, eventually, requires};

use super::site::{Site, engine};

const LINES: usize = 300;
/// How long a command may take to start on a machine that others keep busy.
const STARTED: Duration = Duration::from_secs(60);

/// Writes its lines over some seconds, and then says how it ended.
fn lines() -> String {
    format!("i=0; while [ $i -lt {LINES} ]; do echo line-$i; i=$((i+1)); usleep 10000; done; exit 7")
}

fn expected() -> String {
    (0..LINES).map(|n| format!("line-{n}\n")).collect()
}

/// Runs a command while the engine is killed under it: its output is complete, nothing twice, its end is seen.
fn expect_undisturbed(site: &Site<'_>) {
    let sandbox = site.open();

    let exec = site.exec(&sandbox, &lines()).start();
    exec.wait_for(|output| output.len() > 200);
    site.engine.restart(Ending::Killed);
    let streamed = exec.finish().expect_code(7);

    assert_eq!(streamed.text(), expected());
    assert_eq!(site.state(&sandbox), "ready");
    assert_eq!(site.exec(&sandbox, "echo works").succeed().text(), "works\n");
    site.expect_only(&[&sandbox]);
}

#[test]
fn a_command_goes_on_while_its_engine_is_killed_and_started_again() {
    requires!(docker);
    let engine = engine(Containers::Live);
    let site = Site::at(&engine);

    expect_undisturbed(&site);

    site.expect_all_gone();
}

#[test]
fn a_command_reached_through_its_engine_is_found_again() {
    requires!(docker);
    let engine = engine(Containers::Live);
    let relay = Relay::to(&engine.socket()).expect("a port is free");
    let site = Site::through(&engine, &relay.address());

    expect_undisturbed(&site);
    // Captured instead of streamed.
    let sandbox = site.ready().pop().expect("it is still there");
    let exec =
        site.call(&["exec", &sandbox, "--json", "--id", "captured", "--", "sh", "-c", &lines()]).start();
    // Its output is in the guest and nowhere else: what is written there was started.
    let has_written = || site.call(&["logs", &sandbox, "captured"]).run().text().contains("line-20\n");
    assert!(eventually(STARTED, has_written).is_some());
    site.engine.restart(Ending::Killed);
    let captured = exec.finish().expect_code(7).json();
    let wait = site.call(&["wait", &sandbox, "captured"]).run();

    assert_eq!(captured["stdout"], expected());
    wait.expect_code(7);
    site.expect_all_gone();
}

#[test]
fn a_command_that_ends_with_its_engine_is_lost() {
    requires!(docker);
    let engine = engine(Containers::End);
    let relay = Relay::to(&engine.socket()).expect("a port is free");

    for address in [engine.address(), relay.address()] {
        let site = Site::through(&engine, &address);
        let sandbox = site.open_with(&["--on-idle", "destroy"]);

        let exec = site.exec(&sandbox, &format!("{}; sleep 100", lines().replace("; exit 7", ""))).start();
        exec.wait_for(|output| output.len() > 200);
        site.engine.restart(Ending::Killed);
        let streamed = exec.finish();

        assert!(expected().starts_with(streamed.text()), "{streamed}");
        assert!(streamed.code() != Some(0) && streamed.stderr.contains("went away"), "{streamed}");
        let refused = site.call(&["exec", &sandbox, "--json", "--", "true"]).run().error();
        assert_eq!(refused["kind"], "not_available", "{refused}");
        assert_eq!(refused["details"]["state"], "lost", "{refused}");
        site.expect_only(&[]);
    }
}

/// Kills the engine at some moment of opening, then of closing; whatever came of it, nothing is left or double.
fn expect_order(containers: Containers, moments: usize) {
    let engine = engine(containers);
    let site = Site::at(&engine);
    // The first brings the guest's program, which is another story.
    let first = site.open();
    site.call(&["close", &first]).succeed();

    for moment in 0..moments {
        let delay = Duration::from_millis(1 + (700 * moment / moments) as u64);
        let open = site.open_call(&["--key", "one"]).start();
        std::thread::sleep(delay);
        engine.restart(Ending::Killed);
        open.finish();

        let ready = site.ready();
        assert!(ready.len() <= 1, "{delay:?}: one key, and these sandboxes: {ready:?}");
        site.expect_only(&ready.iter().map(String::as_str).collect::<Vec<_>>());
        let opened = site.open_call(&["--key", "one"]).succeed().json();
        let sandbox = opened["sandbox_id"].as_str().expect("an id");
        assert_eq!(site.exec(sandbox, "echo works").succeed().text(), "works\n", "{delay:?}");

        let close = site.call(&["close", sandbox]).start();
        std::thread::sleep(delay / 2);
        engine.restart(Ending::Killed);
        close.finish();
        site.expect_all_gone();
    }
}

#[test]
fn an_engine_killed_while_sandboxes_come_and_go_leaves_no_orphan_and_no_double() {
    requires!(docker);

    expect_order(Containers::End, count(2, 30));
}

#[test]
fn an_engine_killed_over_containers_that_live_on_leaves_no_orphan_and_no_double() {
    requires!(docker);

    expect_order(Containers::Live, count(2, 30));
}

#[test]
fn an_engine_killed_while_it_gets_the_guest_is_given_it_again() {
    requires!(docker);
    let engine = engine(Containers::End);

    for moment in 0..count(2, 15) {
        let site = Site::at(&engine);
        let open = site.open_call(&[]).start();
        std::thread::sleep(Duration::from_millis(150 + 100 * moment as u64));
        engine.restart(Ending::Killed);
        open.finish();

        let sandbox = site.open();
        assert_eq!(site.exec(&sandbox, "echo works").succeed().text(), "works\n");
        site.expect_all_gone();
    }
}
