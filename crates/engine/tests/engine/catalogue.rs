//! The catalogue: what one declaration of an operation gives every door, also for operations of crates above the engine.

use coracle_core::ceiling::{Bounds, Choices};
use coracle_core::spec::SpecInput;
use coracle_core::{Ceiling, Kind, Policy};
use coracle_engine::catalogue::{Effect, Entry, Facts, Model, Repeat, Scope, Set, tools};
use coracle_engine::{Call, Catalogue, Engine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::world::{World, caller};

/// The whole declaration of an operation that a crate above the engine adds: this, and a route in the HTTP door.
const DOUBLE: Facts = Facts::changes("toy_double", "Double a number", "Doubles a number, as often as asked")
    .repeats(Repeat::If(|input| input["times"] == 1))
    .within(Scope::Everybody)
    .for_models(Model::Fields(&["number"]));

/// One that says no more than it must.
const UNDECLARED: Facts = Facts::changes("toy_undeclared", "Do something", "Does something");

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    number: u64,
    #[serde(default)]
    times: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    doubled: u64,
}

fn with_toy(engine: &Engine) -> Engine {
    let double =
        |_: &Engine, _: &Call, input: Input| Ok(Output { doubled: input.number << input.times.max(1) });
    engine.offering([Entry::doing(&DOUBLE, double), Entry::doing(&UNDECLARED, double)])
}

fn model() -> Ceiling {
    Ceiling::of_model(SpecInput::default(), Choices::default(), &Policy::default()).expect("valid")
}

#[test]
fn an_added_operation_is_called_like_every_other() {
    let world = World::new();
    let engine = with_toy(&world.engine);

    let done = engine.call(caller("run_a"), "toy_double", json!({"number": 21})).expect("it is allowed");
    let wrong = engine.call(caller("run_a"), "toy_double", json!({"numbr": 21})).expect_err("misspelt");
    let unknown = world.engine.call(caller("run_a"), "toy_double", json!({})).expect_err("not offered");

    assert_eq!(done, json!({"doubled": 42}));
    assert_eq!((wrong.kind, &wrong.details["field"]), (Kind::Invalid, &json!("numbr")));
    assert_eq!(unknown.kind, Kind::Invalid);
}

#[test]
fn its_facts_decide_who_may_call_it_and_what_a_model_sees() {
    let engine = with_toy(&World::new().engine);
    let below = caller("run_a").below(model());

    let refused = engine.call(&below, "toy_undeclared", json!({"number": 1})).expect_err("not declared");
    let tools = tools::offer(engine.catalogue(), |facts| facts.name.starts_with("toy_"), Some(&model()));

    assert_eq!(refused.kind, Kind::Denied);
    assert_eq!(tools.len(), 1, "what is not declared is not for models");
    assert_eq!(tools[0].input["properties"].as_object().map(|fields| fields.len()), Some(1));
    assert!(tools[0].check(&json!({"number": 1, "times": 2})).is_err());
    let facts = engine.catalogue().expect("toy_double").expect("it is there").facts;
    assert!(facts.is_repeatable(&json!({"times": 1})) && !facts.is_repeatable(&json!({})));
}

#[test]
fn what_reads_can_be_repeated_and_what_a_model_never_sees_is_for_people() {
    for entry in Catalogue::own().all() {
        let facts = entry.facts;
        if facts.effect == Effect::Reads {
            assert!(facts.is_repeatable(&Value::Null), "{}", facts.name);
        }
        if facts.scope != Scope::Everybody {
            assert_eq!(facts.model, Model::Hidden, "{}", facts.name);
        }
    }
}

/// Doors disagreed on these: whoever removes something again may remove what another has put there meanwhile.
#[test]
fn what_could_hit_what_others_made_in_between_is_not_repeatable() {
    for name in ["sandbox_fs_delete", "image_load", "image_remove", "volume_remove", "sandbox_transfer"] {
        let facts = Catalogue::own().expect(name).expect("it is there").facts;
        assert!(!facts.is_repeatable(&json!({})), "{name}");
    }
}

#[test]
fn what_is_repeatable_depends_on_the_input_where_it_has_to() {
    let is_repeatable = |name: &str, input: Value| {
        Catalogue::own().expect(name).expect("it is there").facts.is_repeatable(&input)
    };

    assert!(is_repeatable("sandbox_exec", json!({"exec_id": "e"})));
    assert!(!is_repeatable("sandbox_exec", json!({})));
    assert!(is_repeatable("sandbox_open", json!({"session_key": "k"})));
    assert!(!is_repeatable("sandbox_open", json!({"session_key": "k", "replace": true})));
    assert!(!is_repeatable("sandbox_fs_write", json!({"overwrite": false})));
    assert!(is_repeatable("sandbox_close", json!({})));
    assert!(!is_repeatable("sandbox_close", json!({"delete_workspace": true})));
}

#[test]
fn an_answer_names_the_sandboxes_that_were_made() {
    let made = |name: &str, output: Value| {
        (Catalogue::own().expect(name).expect("it is there").facts.made)(&output).len()
    };

    assert_eq!(made("sandbox_open", json!({"created": true, "sandbox_id": "sbx_1"})), 1);
    assert_eq!(made("sandbox_open", json!({"created": false, "sandbox_id": "sbx_1"})), 0);
    assert_eq!(made("sandbox_fork", json!({"sandbox_ids": ["sbx_1", "sbx_2"]})), 2);
    assert_eq!(made("sandbox_get", json!({"sandbox_id": "sbx_1"})), 0);
}

#[test]
fn operations_are_offered_in_sets() {
    let of = |set: Set| {
        let all = Catalogue::own().all().iter();
        all.filter(|entry| entry.facts.set == set).map(|entry| entry.facts.name).collect::<Vec<_>>()
    };

    assert_eq!(of(Set::Run), ["sandbox_run"]);
    assert_eq!(of(Set::Volumes), ["volume_list", "volume_remove"]);
    assert_eq!(of(Set::Code).len(), 9, "what clients were promised for code");
}

#[test]
fn a_tenant_is_refused_what_is_for_the_homes_own_people() {
    let engine = with_toy(&World::new().engine);
    let mut tenant = caller("run_a").below(Ceiling::of_token(Bounds::default()));
    tenant.tenant = Some("acme".parse().expect("a name"));

    for name in ["toy_undeclared", "image_build", "image_load", "image_prepull"] {
        let refused = engine.call(&tenant, name, json!({})).expect_err(name);
        assert_eq!(refused.kind, Kind::Denied, "{name}: {}", refused.chain());
    }
}
