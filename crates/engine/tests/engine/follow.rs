//! Output as it comes, and the controls of a running command.

use coracle_core::exec::Outcome;
use coracle_engine::{ExecRequest, Follow, Inline, Stdin};

use crate::world::{World, argv, caller};

fn drain(follow: &mut Follow) -> (Vec<u8>, Option<Outcome>) {
    let (mut output, mut outcome) = (Vec::new(), None);
    while let Some(batch) = follow.next_batch().expect("the guest answers") {
        output.extend(batch.chunks.into_iter().flat_map(|chunk| chunk.data));
        outcome = batch.progress.outcome;
    }
    (output, outcome)
}

#[test]
fn output_is_followed_to_the_end() {
    let world = World::new();
    let id = world.open("run_a");
    let request =
        ExecRequest { argv: argv(&["sh", "-c", "echo a; sleep 0.05; echo b"]), ..ExecRequest::default() };
    let exec = world.engine.execs().start(caller("run_a"), &id, &request).expect("it starts").exec_id;

    let mut follow = world.engine.execs().follow(caller("run_a"), &id, &exec, 0).expect("it is ours");
    let (output, outcome) = drain(&mut follow);
    let (tail, _) =
        drain(&mut world.engine.execs().follow(caller("run_a"), &id, &exec, 1).expect("it is ours"));

    assert_eq!(output, b"a\nb\n");
    assert_eq!(outcome, Some(Outcome::Exited { code: 0 }));
    assert_eq!(follow.seq(), 2);
    assert_eq!(tail, b"b\n");
}

/// Whoever does not read holds one batch, so that must not be all there is.
#[test]
fn a_batch_is_no_longer_than_an_answer_may_be() {
    let world = World::new();
    let id = world.open("run_a");
    let request =
        ExecRequest { argv: argv(&["sh", "-c", "echo a; echo b >&2; echo c"]), ..ExecRequest::default() };
    let exec = world.engine.execs().start(caller("run_a"), &id, &request).expect("it starts").exec_id;
    let all = drain(&mut world.engine.execs().follow(caller("run_a"), &id, &exec, 0).expect("it is ours"));

    let bounded = world.engine.answering(Inline::at_most(1));
    let mut follow = bounded.execs().follow(caller("run_a"), &id, &exec, 0).expect("it is ours");
    let (mut output, mut outcome) = (Vec::new(), None);
    while let Some(batch) = follow.next_batch().expect("the guest answers") {
        assert!(batch.chunks.len() <= 1 && outcome.is_none(), "{batch:?}");
        output.extend(batch.chunks.into_iter().flat_map(|chunk| chunk.data));
        outcome = batch.progress.outcome;
    }

    assert_eq!((output, outcome), all);
}

#[test]
fn a_person_at_the_controls_is_heard() {
    let world = World::new();
    let id = world.open("run_a");
    let request = ExecRequest { argv: argv(&["cat"]), stdin: Stdin::Open, ..ExecRequest::default() };
    let exec = world.engine.execs().start(caller("run_a"), &id, &request).expect("it starts").exec_id;
    let mut control = world.engine.execs().control(caller("run_a"), &id, &exec).expect("it is ours");

    control.write(b"hello").expect("it reads");
    control.close_input().expect("it is open");
    let (output, _) =
        drain(&mut world.engine.execs().follow(caller("run_a"), &id, &exec, 0).expect("it is ours"));

    assert_eq!(output, b"hello");
}

#[test]
fn signals_arrive() {
    let world = World::new();
    let id = world.open("run_a");
    let exec = world.start_sleeper("run_a", &id);
    let mut control = world.engine.execs().control(caller("run_a"), &id, &exec).expect("it is ours");

    control.signal(2).expect("it runs");
    let (_, outcome) =
        drain(&mut world.engine.execs().follow(caller("run_a"), &id, &exec, 0).expect("it is ours"));

    assert_eq!(outcome, Some(Outcome::Signalled { signal: 2 }));
}

#[test]
fn a_guest_that_dies_ends_the_following() {
    let world = World::new();
    let id = world.open("run_a");
    let exec = world.start_sleeper("run_a", &id);
    let mut follow = world.engine.execs().follow(caller("run_a"), &id, &exec, 0).expect("it is ours");

    world.backend.kill_guest(&id);
    let (_, outcome) = drain(&mut follow);

    assert_eq!(outcome, Some(Outcome::Lost));
}

#[test]
fn output_that_was_not_kept_does_not_hold_up_the_end() {
    let world = World::new();
    let opened = world.ok("run_a", "sandbox_open", serde_json::json!({"limits": {"output_bytes": 1024}}));
    let id = opened["sandbox_id"].as_str().expect("an id").parse().expect("an id");
    let request = ExecRequest { argv: argv(&["echo", &"x".repeat(2000)]), ..ExecRequest::default() };
    let exec = world.engine.execs().start(caller("run_a"), &id, &request).expect("it starts").exec_id;

    let (output, outcome) =
        drain(&mut world.engine.execs().follow(caller("run_a"), &id, &exec, 0).expect("it is ours"));

    assert!(output.is_empty());
    assert_eq!(outcome, Some(Outcome::Exited { code: 0 }));
}
