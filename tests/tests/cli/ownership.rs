//! One owner at any moment, and errors tell other runs who it is.

use coracle_tests::{Home, SOON, eventually, requires};
use serde_json::Value;

fn record(home: &Home, sandbox: &str) -> Value {
    home.call(["show", sandbox, "--json"]).succeed().json()
}

fn epoch(home: &Home, sandbox: &str) -> u64 {
    let record = record(home, sandbox);
    record["epoch"].as_u64().unwrap_or_else(|| panic!("no epoch: {record}"))
}

#[test]
fn a_sandbox_is_lent_and_given_back() {
    requires!(native);
    let home = Home::new();
    let exec_as = |run: &str, sandbox: &str, script: &str| {
        home.call(["exec", sandbox, "--run", run, "--json", "--", "sh", "-c", script]).run()
    };
    let sandbox = home.open_with(&["--run", "run_a"]);
    exec_as("run_a", &sandbox, "echo from a > note").expect_code(0);
    let guests = home.census().guests();
    let first = epoch(&home, &sandbox);

    let refused = exec_as("run_b", &sandbox, "true").error();
    assert_eq!(refused["kind"], "not_owner");
    assert!(refused.to_string().contains("run_a"), "the refusal names the owner: {refused}");

    home.call(["transfer", &sandbox, "--to", "run_b", "--run", "run_a"]).succeed();
    let second = epoch(&home, &sandbox);
    assert_eq!(record(&home, &sandbox)["owner"], "run_b");

    let lent = exec_as("run_a", &sandbox, "true").error();
    assert_eq!(lent["kind"], "lent_out");
    assert!(lent.to_string().contains("run_b"), "the refusal names the owner: {lent}");

    let read = exec_as("run_b", &sandbox, "cat note").expect_code(0).json();
    assert_eq!(read["stdout"], "from a\n");
    assert_eq!(home.census().guests(), guests, "the same guest serves the new owner");

    home.call(["release", &sandbox, "--run", "run_b"]).succeed();
    let third = epoch(&home, &sandbox);
    assert_eq!(record(&home, &sandbox)["owner"], "run_a");
    exec_as("run_a", &sandbox, "true").expect_code(0);
    assert_eq!(exec_as("run_b", &sandbox, "true").error_kind(), "not_owner");
    assert!(first < second && second < third, "every change raises the epoch: {first}, {second}, {third}");
}

#[test]
fn a_claim_from_before_a_hand_over_is_refused_after_the_return() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--run", "run_a"]);
    let before = epoch(&home, &sandbox).to_string();
    home.call(["exec", &sandbox, "--run", "run_a", "--epoch", &before, "--", "true"]).succeed();
    home.call(["transfer", &sandbox, "--to", "run_b", "--run", "run_a"]).succeed();
    home.call(["release", &sandbox, "--run", "run_b"]).succeed();

    let stale =
        home.call(["exec", &sandbox, "--run", "run_a", "--epoch", &before, "--json", "--", "true"]).run();
    let fresh = epoch(&home, &sandbox).to_string();

    assert_eq!(stale.error_kind(), "stale_epoch");
    home.call(["exec", &sandbox, "--run", "run_a", "--epoch", &fresh, "--", "true"]).succeed();
}

#[test]
fn every_operation_needs_ownership_and_showing_does_not() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--run", "run_a"]);
    home.call(["exec", &sandbox, "--run", "run_a", "--id", "e", "--", "true"]).succeed();
    let operations: &[&[&str]] = &[
        &["exec", &sandbox, "--", "true"],
        &["logs", &sandbox, "e"],
        &["wait", &sandbox, "e"],
        &["stop", &sandbox, "e"],
        &["fs", "read", &sandbox, "f"],
        &["fs", "write", &sandbox, "f"],
        &["fs", "list", &sandbox, "."],
        &["fs", "stat", &sandbox, "f"],
        &["fs", "move", &sandbox, "f", "g"],
        &["fs", "delete", &sandbox, "f"],
        &["transfer", &sandbox, "--to", "run_b"],
        &["release", &sandbox],
        &["claim", &sandbox],
        &["close", &sandbox],
    ];

    for operation in operations {
        let refused = home.call(["--run", "run_b", "--json"].iter().chain(*operation)).run();
        let shown = refused.to_string();
        assert_eq!(refused.error_kind(), "not_owner", "{shown}");
    }

    home.call(["show", &sandbox, "--run", "run_b"]).succeed();
    assert_eq!(home.live().len(), 1);
}

#[test]
fn claiming_is_idempotent_for_the_owner_and_takes_what_has_no_owner() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--run", "run_a"]);
    let first = epoch(&home, &sandbox);

    home.call(["claim", &sandbox, "--run", "run_a"]).succeed();
    assert_eq!(epoch(&home, &sandbox), first);

    home.call(["release", &sandbox, "--run", "run_a"]).succeed();
    assert!(record(&home, &sandbox)["owner"].is_null());
    home.call(["claim", &sandbox, "--run", "run_b"]).succeed();
    assert_eq!(record(&home, &sandbox)["owner"], "run_b");
    assert!(epoch(&home, &sandbox) > first);
}

#[test]
fn of_many_claims_at_once_one_wins() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--run", "run_a"]);
    home.call(["release", &sandbox, "--run", "run_a"]).succeed();

    let claims: Vec<_> = (0..10)
        .map(|n| home.call(["claim", &sandbox, "--run", &format!("run_{n}"), "--json"]).start())
        .collect();
    let finished: Vec<_> = claims.into_iter().map(|claim| claim.finish()).collect();

    let won = finished.iter().filter(|claim| claim.code() == Some(0)).count();
    assert_eq!(won, 1);
    for lost in finished.into_iter().filter(|claim| claim.code() != Some(0)) {
        assert_eq!(lost.error_kind(), "not_owner");
    }
}

#[test]
fn a_transfer_while_something_runs_is_a_conflict_unless_said_otherwise() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--run", "run_a"]);
    home.call(["exec", &sandbox, "--run", "run_a", "--detach", "--id", "long", "--", "sleep", "616161"])
        .succeed();
    eventually(SOON, || home.census().named("sleep 616161").len() == 1).expect("it sleeps");

    let refused = home.call(["transfer", &sandbox, "--to", "run_b", "--run", "run_a", "--json"]).run();
    assert_eq!(refused.error_kind(), "conflict");
    assert_eq!(record(&home, &sandbox)["owner"], "run_a");

    home.call(["transfer", &sandbox, "--to", "run_b", "--run", "run_a", "--running", "keep"]).succeed();
    assert_eq!(home.census().named("sleep 616161").len(), 1);
    assert_eq!(
        home.call(["logs", &sandbox, "long", "--run", "run_a", "--json"]).run().error_kind(),
        "lent_out"
    );
    home.call(["logs", &sandbox, "long", "--run", "run_b"]).succeed();

    home.call(["transfer", &sandbox, "--to", "run_c", "--run", "run_b", "--running", "kill"]).succeed();
    let dead = eventually(SOON, || home.census().named("sleep 616161").is_empty());
    assert!(dead.is_some());
}

#[test]
fn what_the_lender_left_in_the_background_ends_with_a_kill() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--run", "run_a"]);
    home.call(["exec", &sandbox, "--run", "run_a", "--keep-background", "--", "sh", "-c", "sleep 707070 &"])
        .succeed();

    let refused = home.call(["transfer", &sandbox, "--to", "run_b", "--run", "run_a", "--json"]).run();
    assert_eq!(refused.error_kind(), "conflict");
    home.call(["transfer", &sandbox, "--to", "run_b", "--run", "run_a", "--running", "kill"]).succeed();

    assert!(home.census().named("sleep 707070").is_empty());
}
