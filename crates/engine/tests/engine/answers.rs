//! Answers that somebody counts are made only where there is room for them.

use std::sync::Arc;

use coracle_core::{Kind, Result};
use coracle_engine::inline::AnswerMemory;
use coracle_engine::{Engine, Inline};
use serde_json::{Value, json};

use crate::world::{World, caller};

/// Nothing fits.
#[derive(Debug)]
struct Full;

impl AnswerMemory for Full {
    fn take(&self, _: u64) -> bool {
        false
    }
}

fn ask(engine: &Engine, operation: &str, input: Value) -> Result<Value> {
    engine.call(caller("run_a"), operation, input)
}

#[test]
fn what_is_long_is_refused_where_there_is_no_room_and_what_is_short_is_told() {
    let world = World::new();
    let full = world.engine.answering(Inline::at_most(1 << 20).counted_by(Arc::new(Full)));
    let short = world.ok("run_a", "sandbox_open", json!({}))["sandbox_id"].clone();
    let spec = json!({"env": {"LONG": "x".repeat(100_000)}});
    let long = world.ok("run_a", "sandbox_open", spec)["sandbox_id"].clone();

    let refused = ask(&full, "sandbox_get", json!({"sandbox_id": long})).map(drop).expect_err("it is long");
    assert_eq!(refused.kind, Kind::LimitExceeded);
    ask(&full, "sandbox_get", json!({"sandbox_id": short})).expect("it is short");
    // Nobody lists environments.
    ask(&full, "sandbox_list", json!({})).expect("there are two");
    ask(&world.engine, "sandbox_get", json!({"sandbox_id": long})).expect("nobody counts");

    let labels: Value = (0..60).map(|number| (format!("label_{number}"), json!("x".repeat(200)))).collect();
    (0..2).for_each(|_| drop(world.ok("run_a", "sandbox_open", json!({"labels": labels}))));
    let refused = ask(&full, "sandbox_list", json!({})).map(drop).expect_err("there is much to list");
    assert_eq!(refused.kind, Kind::LimitExceeded);
    assert_eq!(ask(&full, "sandbox_list", json!({"max": 1})).expect("one fits")["more"], true);
}
