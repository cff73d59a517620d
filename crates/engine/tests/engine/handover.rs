//! Changes of owner, with somebody acting or dying in the middle of them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use coracle_core::{Backend, Epoch, ExecId, Kind, SandboxId};
use coracle_engine::CrashPoints;
use coracle_testing::Client;
use coracle_testing::backend::{Crash, crashes};
use coracle_wire::{Body, Command, FaultCode, Reply};
use serde_json::{Value, json};

use crate::world::World;

type Deed = Box<dyn FnOnce() + Send>;

/// Something to be done when a point is reached, once.
#[derive(Clone, Default)]
struct Trap(Arc<Mutex<Option<(&'static str, Deed)>>>);

impl Trap {
    fn world(&self) -> World {
        let trap = self.clone();
        World::crashing(CrashPoints::calling(move |point| {
            let mut set = trap.0.lock().expect("nobody panics with the trap");
            let deed = set.take_if(|(at, _)| *at == point);
            drop(set);
            if let Some((_, deed)) = deed {
                deed();
            }
        }))
    }

    fn set(&self, point: &'static str, deed: impl FnOnce() + Send + 'static) {
        *self.0.lock().expect("nobody panics with the trap") = Some((point, Box::new(deed)));
    }

    /// Has the process that reaches the point die there.
    fn kill_at(&self, point: &'static str) {
        self.set(point, || std::panic::resume_unwind(Box::new(Crash)));
    }
}

/// Connects to the guest past the store.
fn zombie(world: &World, id: &SandboxId, epoch: u64) -> Client {
    let record = world.record(id);
    let stream =
        world.backend.connect(id, record.placement.as_ref().expect("it is ready")).expect("it is there");
    Client::connect(stream, &record.secret, epoch).expect("the guest knows the secret")
}

/// Waits for what another thread is about to do.
fn until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "it did not come to it");
        std::thread::yield_now();
    }
}

fn sleep() -> Command {
    coracle_testing::client::command(&["sleep", "60"])
}

fn lend(id: &SandboxId, running: Option<&str>) -> Value {
    json!({"sandbox_id": id, "to": "run_b", "running": running})
}

fn status(world: &World, run: &str, id: &SandboxId, exec: &ExecId) -> Value {
    world.ok(run, "sandbox_exec_read", json!({"sandbox_id": id, "exec_id": exec}))["status"].clone()
}

#[test]
fn a_command_started_while_the_owner_changes_waits_and_is_refused() {
    let trap = Trap::default();
    let world = trap.world();
    let id = world.open("run_a");
    let late: Arc<Mutex<Option<Client>>> = Arc::default();
    let (kept, mut client) = (late.clone(), zombie(&world, &id, 1));
    let (backend, held) = (world.backend.clone(), id.clone());
    trap.set("transfer.check.after", move || {
        client.send(Body::Start { exec: "late".into(), command: sleep() });
        // One that comes after the change is refused without having waited.
        until(|| backend.waiting(&held) > 0);
        *kept.lock().expect("nobody else has it") = Some(client);
    });

    world.ok("run_a", "sandbox_transfer", lend(&id, None));

    let mut client = late.lock().expect("nobody else has it").take().expect("the point was reached");
    let answer = client.answer();
    assert!(
        matches!(&answer, Reply::Fault(fault) if fault.code == FaultCode::StaleEpoch { current: 2 }),
        "{answer:?}"
    );
    let shown = world.ok("run_b", "sandbox_get", json!({"sandbox_id": id}));
    assert_eq!((&shown["guest"]["running"], world.record(&id).pending_kill), (&json!(0), None));
}

#[test]
fn a_refused_transfer_leaves_nobody_waiting() {
    let world = World::new();
    let id = world.open("run_a");
    world.start_sleeper("run_a", &id);

    assert_eq!(world.refused("run_a", "sandbox_transfer", lend(&id, None)).kind, Kind::Conflict);

    assert_eq!(world.exec("run_a", &id, &["echo", "on"])["stdout"], "on\n");
    assert_eq!((world.record(&id).lease.epoch(), world.record(&id).pending_kill), (Epoch(1), None));
}

#[test]
fn of_two_transfers_at_once_the_second_learns_who_was_first() {
    let trap = Trap::default();
    let world = trap.world();
    let id = world.open("run_a");
    let (engine, other, backend) = (world.engine.clone(), id.clone(), world.backend.clone());
    let second = Arc::new(Mutex::new(None));
    let waiting = second.clone();
    trap.set("transfer.check.after", move || {
        let to_c = json!({"sandbox_id": other, "to": "run_c"});
        let transfer = move || {
            engine.call(crate::world::caller("run_a"), "sandbox_transfer", to_c).expect_err("too late")
        };
        let before = backend.connects();
        *waiting.lock().expect("nobody else has it") = Some(std::thread::spawn(transfer));
        // It has read the row by then, which is still the old owner's.
        until(|| backend.connects() > before);
    });

    world.ok("run_a", "sandbox_transfer", lend(&id, None));

    let second = second.lock().expect("nobody else has it").take().expect("the point was reached");
    let refused = second.join().expect("no panic");
    assert_eq!((refused.kind, &refused.details["owner"]), (Kind::LentOut, &json!("run_b")));
}

#[test]
fn a_kill_is_made_up_for_before_the_new_owner_is_served_whoever_died() {
    for point in ["transfer.row.after", "kill.confirm.after", "transfer.fence.after"] {
        let trap = Trap::default();
        let world = trap.world();
        let id = world.open("run_a");
        let exec = world.start_sleeper("run_a", &id);
        trap.kill_at(point);

        assert!(crashes(|| drop(world.ok("run_a", "sandbox_transfer", lend(&id, Some("kill"))))), "{point}");

        let settled = point == "transfer.fence.after";
        assert_eq!(world.record(&id).pending_kill, (!settled).then_some(Epoch(2)), "{point}");
        world.exec("run_b", &id, &["true"]);
        assert_eq!(status(&world, "run_b", &id, &exec), "completed", "{point}");
        assert_eq!(world.record(&id).pending_kill, None, "{point}");
    }
}

#[test]
fn what_gets_in_after_a_caller_died_does_not_outlive_the_new_owners_first_command() {
    let trap = Trap::default();
    let world = trap.world();
    let id = world.open("run_a");
    trap.kill_at("transfer.row.after");
    assert!(crashes(|| drop(world.ok("run_a", "sandbox_transfer", lend(&id, None)))));

    // The row is the new owner's, the guest has not heard of it, and the old owner was let in before.
    zombie(&world, &id, 1).start("late", sleep());
    world.exec("run_b", &id, &["true"]);

    let shown = world.ok("run_b", "sandbox_get", json!({"sandbox_id": id}));
    assert_eq!(shown["guest"]["running"], 0);
}

#[test]
fn a_kill_that_is_due_is_carried_out_by_a_later_owner_and_spares_what_came_since() {
    let trap = Trap::default();
    let world = trap.world();
    let id = world.open("run_a");
    let first = world.start_sleeper("run_a", &id);
    trap.kill_at("transfer.row.after");
    assert!(crashes(|| drop(world.ok("run_a", "sandbox_transfer", lend(&id, Some("kill"))))));
    // Somebody who does not know of what is due starts a command for the new owner, as an older coracle would.
    zombie(&world, &id, 2).start("second", sleep());

    let keep = json!({"sandbox_id": id, "to": "run_c", "running": "keep"});
    world.ok("run_b", "sandbox_transfer", keep);

    assert_eq!(status(&world, "run_c", &id, &first), "completed");
    assert_eq!(status(&world, "run_c", &id, &"second".parse().expect("an id")), "running");
    assert_eq!(world.record(&id).pending_kill, None);
}
