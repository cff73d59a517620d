//! Calls that are cancelled, or reach their deadline, while they wait for others or make something.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use coracle_core::{Backend, Cancel, Error, Kind, State, Store};
use coracle_engine::{Call, CrashPoints};
use coracle_testing::backend::crashes;
use coracle_testing::{Fault, Step};
use serde_json::{Value, json};

use crate::world::{World, caller};

impl World {
    /// Calls with a deadline that is soon over, from another thread: this one may have a right that the call waits for.
    fn late(&self, name: &str, input: Value) -> Error {
        let deadline = Instant::now() + Duration::from_millis(100);
        let call = Call::by(caller("run_a")).until(Some(deadline));
        let called = || self.engine.call(call, name, input);
        let answer = std::thread::scope(|scope| scope.spawn(called).join().expect("it does not panic"));
        answer.expect_err("it waits in vain")
    }
}

/// A world in which a call is cancelled as it reaches a point.
struct Cancelling {
    world: World,
    /// The call to cancel, once it is there.
    next: Arc<Mutex<Option<Cancel>>>,
}

impl Cancelling {
    fn at(point: &'static str) -> Self {
        let next = Arc::<Mutex<Option<Cancel>>>::default();
        let armed = next.clone();
        let crash = CrashPoints::calling(move |reached| {
            if let Some(cancel) = armed.lock().expect("no test panics here").take_if(|_| reached == point) {
                cancel.cancel();
            }
        });
        Self { world: World::crashing(crash), next }
    }

    /// Makes a call, which is cancelled at the point.
    fn call(&self, name: &str, input: Value) -> Result<Value, Error> {
        let cancel = Cancel::default();
        *self.next.lock().expect("no test panics here") = Some(cancel.clone());
        self.world.engine.call(Call::by(caller("run_a")).cancelled_by(cancel), name, input)
    }
}

#[test]
fn a_cancelled_snapshot_leaves_no_image() {
    let cancelling = Cancelling::at("fork.hold.after");
    let world = &cancelling.world;
    let id = world.open("run_a");

    let refused = cancelling.call("sandbox_snapshot", json!({ "sandbox_id": id }));

    assert_eq!(refused.expect_err("it was cancelled").kind, Kind::Aborted);
    let images = world.backend.images().expect("it has images").list().expect("a list");
    assert!(images.is_empty(), "{images:?}");
    world.exec("run_a", &id, &["true"]);
}

#[test]
fn a_fork_that_is_cancelled_while_its_last_child_is_made_leaves_none() {
    let cancelling = Cancelling::at("create.backend.after");
    let world = &cancelling.world;
    let parent = world.open("run_a");

    let refused = cancelling.call("sandbox_fork", json!({ "sandbox_id": parent, "count": 1 }));

    assert_eq!(refused.expect_err("it was cancelled").kind, Kind::Aborted);
    assert_eq!(world.backend.survey().expect("a survey").len(), 1, "only the parent is left");
}

#[test]
fn a_command_that_is_cancelled_in_a_paused_sandbox_does_not_go_on() {
    let world = World::new();
    let (id, cancel) = (world.open("run_a"), Cancel::default());
    let call = Call::by(caller("run_a")).cancelled_by(cancel.clone());
    let input = json!({ "sandbox_id": id, "cmd": ["sleep", "60"], "exec_id": "exec_long" });
    let execs = || world.ok("run_a", "sandbox_get", json!({ "sandbox_id": id }))["execs"].clone();

    let answer = std::thread::scope(|scope| {
        let running = scope.spawn(|| world.engine.call(call, "sandbox_exec", input));
        while execs()[0]["status"] != "running" {
            std::thread::sleep(Duration::from_millis(5));
        }
        world.ok("run_a", "sandbox_pause", json!({ "sandbox_id": id }));
        cancel.cancel();
        running.join().expect("it does not panic")
    });

    assert_eq!(answer.expect_err("it was cancelled").kind, Kind::Aborted);
    let refused =
        world.refused("run_a", "sandbox_exec_stop", json!({ "sandbox_id": id, "exec_id": "exec_long" }));
    assert_eq!(refused.kind, Kind::Conflict, "a caller that stops a command wants its grace");
    world.ok("run_a", "sandbox_resume", json!({ "sandbox_id": id }));
    assert_ne!(execs()[0]["status"], "running");
}

#[test]
fn a_wait_for_the_work_of_another_ends_at_the_deadline() {
    let world = World::new();
    let id = world.open("run_a");
    let _work = world.store.work_on(&id, &Cancel::default()).expect("no other works on it");

    for name in ["sandbox_close", "sandbox_pause", "sandbox_resume", "sandbox_fork", "sandbox_snapshot"] {
        let refused = world.late(name, json!({ "sandbox_id": id }));
        assert_eq!(refused.kind, Kind::Timeout, "{name}: {refused:?}");
    }

    assert_eq!(world.record(&id).state, State::Ready);
    assert_eq!(world.backend.survey().expect("a survey").len(), 1);
}

#[test]
fn an_open_by_key_does_not_wait_for_its_maker_longer_than_its_deadline() {
    let world = World::new();
    world.backend.fail_at(Step::Create, Fault::Crash);
    assert!(crashes(|| drop(world.call("run_a", "sandbox_open", json!({ "session_key": "k" })))));
    let key = "k".parse().expect("a key");
    let row = world.store.find_key(None, &key).expect("it answers").expect("its row is there");
    let _work = world.store.work_on(&row.id, &Cancel::default()).expect("its maker is dead");

    let refused = world.late("sandbox_open", json!({ "session_key": "k" }));

    assert_eq!((refused.kind, world.record(&row.id).state), (Kind::Timeout, State::Creating));
}
