//! The story of one sandbox; coracle is killed at each crash point in turn.

use std::panic::catch_unwind;

use coracle_tests::{Finished, Home, count, requires};
use serde_json::Value;

/// One call of the story and the run that makes it.
struct Step {
    run: &'static str,
    verb: &'static str,
    rest: &'static [&'static str],
}

/// Opened by A with a network, used, narrowed, paused and resumed, lent to B, given back, let go, taken by C, replaced,
/// closed.
/// `SBX` stands for the sandbox.
const STORY: &[Step] = &[
    Step { run: "run_a", verb: "open", rest: &["--key", "story", "--network", "allow=ok.test,b.test"] },
    Step {
        run: "run_a",
        verb: "exec",
        // What ended with its caller would at times not have run.
        rest: &["SBX", "--keep-running", "--id", "once", "--", "sh", "-c", "echo line >> note"],
    },
    Step { run: "run_a", verb: "network", rest: &["SBX", "allow=ok.test"] },
    Step { run: "run_a", verb: "pause", rest: &["SBX"] },
    Step { run: "run_a", verb: "resume", rest: &["SBX"] },
    Step { run: "run_a", verb: "transfer", rest: &["SBX", "--to", "run_b"] },
    Step { run: "run_b", verb: "release", rest: &["SBX"] },
    Step { run: "run_a", verb: "release", rest: &["SBX"] },
    Step { run: "run_c", verb: "claim", rest: &["SBX"] },
    Step { run: "run_c", verb: "open", rest: &["--key", "story", "--replace"] },
    Step { run: "run_c", verb: "close", rest: &["SBX"] },
];

/// What only root's sandboxes can do.
const ROOT_VERBS: [&str; 2] = ["pause", "resume"];

/// Returns the steps that can be taken in a home.
fn story(home: &Home) -> impl Iterator<Item = &'static Step> {
    let ordinary = home.is_ordinary();
    STORY.iter().filter(move |step| !ordinary || !ROOT_VERBS.contains(&step.verb))
}

const RUNS: [&str; 3] = ["run_a", "run_b", "run_c"];

/// States that need no explanation after a `gc`.
const SETTLED: &[&str] = &["ready", "destroyed"];
/// States that do: the record has to say why.
const EXPLAINED: &[&str] = &["failed", "lost"];

fn take(home: &Home, step: &Step, crash_at: Option<&str>) -> Finished {
    let sandbox = newest(home).map_or("sbx_none".to_owned(), |record| sandbox_id(&record));
    let rest = step.rest.iter().map(|word| if *word == "SBX" { sandbox.as_str() } else { word });
    let call = home.call([step.verb, "--run", step.run, "--json"].into_iter().chain(rest));
    match crash_at {
        Some(point) => call.env("CORACLE_CRASH_AT", point).run(),
        None => call.run(),
    }
}

fn newest(home: &Home) -> Option<Value> {
    home.live().pop()
}

fn sandbox_id(record: &Value) -> String {
    record["sandbox_id"].as_str().expect("a record has an id").to_owned()
}

/// Goes through the story until a step is killed, and returns that step.
fn crash(home: &Home, point: &str) -> &'static Step {
    for step in story(home) {
        let finished = take(home, step, Some(point));
        if finished.was_killed() {
            return step;
        }
        finished.expect_code(0);
    }
    panic!("the point `{point}` was never reached");
}

/// Everything there is belongs to a sandbox that is ready, and its owner alone may use it.
fn expect_order(home: &Home, point: &str) {
    resume_what_is_paused(home);
    let records = home.live();
    assert!(records.len() <= 1, "{point}: {records:?}");
    for record in &records {
        let state = record["state"].as_str().unwrap_or_default();
        let explained = EXPLAINED.contains(&state) && record["reason"].is_string();
        assert!(SETTLED.contains(&state) || explained, "{point}: a state without an explanation: {record}");
    }
    let ready: Vec<&Value> = records.iter().filter(|record| record["state"] == "ready").collect();
    let census = home.census();
    assert_eq!(
        census.guests().len(),
        ready.len(),
        "{point}: guests without a record:\n{}",
        census.describe()
    );
    if ready.is_empty() {
        assert!(census.is_empty(), "{point}: orphans:\n{}", census.describe());
    }
    for record in ready {
        let sandbox = sandbox_id(record);
        assert!(
            census.directories.iter().all(|path| path.to_string_lossy().contains(&sandbox)),
            "{point}:\n{}",
            census.describe()
        );
        let may =
            |run: &&str| home.call(["exec", &sandbox, "--run", run, "--", "true"]).run().code() == Some(0);
        let owners: Vec<&str> = RUNS.into_iter().filter(may).collect();
        let recorded: Vec<&str> = record["owner"].as_str().into_iter().collect();
        assert_eq!(owners, recorded, "{point}: who may use it and who is said to own it");
    }
}

/// A pause that was cut short is a pause: its owner resumes.
fn resume_what_is_paused(home: &Home) {
    for record in home.live().iter().filter(|record| record["state"] == "paused") {
        let owner = record["owner"].as_str().expect("a paused sandbox keeps its owner in the story");
        home.call(["resume", &sandbox_id(record), "--run", owner]).succeed();
    }
}

/// What was cut short can be done again, with the effect of having been done once.
fn expect_repeatable(home: &Home, point: &str, step: &Step) {
    match step.verb {
        "open" => {
            take(home, step, None).expect_code(0);
            assert_eq!(home.live().len(), 1, "{point}");
        }
        "exec" => {
            take(home, step, None).expect_code(0);
            let sandbox = sandbox_id(&newest(home).expect("it is still there"));
            let note = home.call(["exec", &sandbox, "--run", step.run, "--", "cat", "note"]).succeed();
            assert_eq!(note.text(), "line\n", "{point}: an exec id runs once");
        }
        _ => {
            let finished = take(home, step, None);
            assert!(
                matches!(finished.code(), Some(0 | 125)) && !finished.stderr.contains("panicked"),
                "{point}: {finished}"
            );
        }
    }
}

fn survive(home: &Home, point: &str) {
    let step = crash(home, point);
    home.call(["gc"]).succeed();

    home.expect_no_orphans();
    expect_order(home, point);
    expect_repeatable(home, point, step);
    expect_order(home, point);
}

/// Tries every point, or every third in an ordinary run, so that one report names all that fail.
#[track_caller]
fn survive_all(points: &[&str], home: fn() -> Home) {
    let dies = |point: &&&str| catch_unwind(|| survive(&home(), point)).is_err();
    let dead: Vec<_> = points.iter().step_by(count(3, 1)).filter(dies).collect();
    assert!(dead.is_empty(), "a kill at these points is not survived: {dead:?}");
}

/// Forks and snapshots have stories of their own.
fn without_forks(points: &[&'static str]) -> Vec<&'static str> {
    let others = |point: &&str| point.contains("fork.") || point.contains("snapshot.");
    points.iter().copied().filter(|point| !others(point)).collect()
}

#[test]
fn the_story_ends_well_without_a_kill() {
    requires!(native);
    let home = Home::new();

    for step in story(&home) {
        take(&home, step, None).expect_code(0);
    }

    home.expect_nothing_left();
}

#[test]
fn a_kill_at_any_point_of_the_engine_is_survived() {
    requires!(native);

    survive_all(&without_forks(coracle_engine::CRASH_POINTS), Home::new);
}

#[test]
fn a_kill_at_any_point_of_the_backends_is_survived() {
    requires!(native);

    survive_all(&without_forks(coracle_backends::CRASH_POINTS), Home::new);
}

#[test]
fn an_ordinary_user_survives_a_kill_at_any_point_of_the_backends() {
    requires!(native);

    survive_all(&without_forks(coracle_backends::CRASH_POINTS), Home::ordinary);
}

#[test]
fn without_a_gc_the_next_call_cleans_up_by_itself() {
    requires!(native);
    let home = Home::new();
    crash(&home, "create.backend.after");

    // Opening the same key again must not hand out the corpse.
    let sandbox = home.open_with(&["--key", "story", "--run", "run_a"]);

    home.call(["exec", &sandbox, "--run", "run_a", "--", "true"]).succeed();
    assert_eq!(home.census().guests().len(), 1);
}
