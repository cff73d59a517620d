//! Ceilings: a caller of a door gets what a person gave it, and reaches nothing that has more.

use coracle_core::ceiling::{Bounds, Choice};
use coracle_core::limits::LimitsInput;
use coracle_core::spec::SpecInput;
use coracle_core::{Ceiling, Error, Kind, Network, Policy, Record, SandboxId};
use coracle_engine::Caller;
use coracle_testing::sample;
use serde_json::{Value, json};

use crate::tenants::inputs_about;
use crate::world::{World, caller};

/// A model at a door that was started with this, and lets it choose some of it.
fn model(given: Value, choices: &[Choice]) -> Caller {
    let spec: SpecInput = serde_json::from_value(given).expect("a spec");
    let ceiling = Ceiling::of_model(spec, choices.iter().copied().collect(), &Policy::default());
    caller("run_a").below(ceiling.expect("it is allowed"))
}

fn refused(world: &World, who: &Caller, name: &str, input: Value) -> Error {
    world.engine.call(who, name, input).expect_err(name)
}

fn opened(world: &World, who: &Caller, input: Value) -> Record {
    let reply = world.engine.call(who, "sandbox_open", input).expect("it is allowed");
    world.record(&id(&reply))
}

fn id(reply: &Value) -> SandboxId {
    reply["sandbox_id"].as_str().expect("text").parse().expect("an id")
}

#[test]
fn a_sandbox_is_what_the_person_gave() {
    let world = World::new();
    let given = json!({
        "network": "allow=a.test", "limits": {"memory_mb": 64}, "labels": {"door": "mcp"},
        "mounts": [{"source": "project", "target": "/workspace"}],
    });

    let record = opened(&world, &model(given, &[]), json!({"session_key": "user:x"}));

    assert_eq!(record.spec.limits.memory_mb, Some(64));
    assert_eq!(record.spec.network.to_string(), "allow=a.test");
    assert_eq!((record.spec.mounts.len(), record.spec.labels.len()), (1, 1));
}

#[test]
fn what_was_refused_leaves_no_row() {
    let world = World::new();
    let who = model(json!({}), &[]);

    for input in [
        json!({"mounts": [{"source": "/etc", "target": "/x"}]}),
        json!({"network": "open"}),
        json!({"limits": "unlimited"}),
        json!({"privileges": "install"}),
        json!({"backend": "fake"}),
    ] {
        assert_eq!(refused(&world, &who, "sandbox_open", input.clone()).kind, Kind::Invalid, "{input}");
        let mut run = input.clone();
        run["code"] = json!("print(1)");
        assert_eq!(refused(&world, &who, "sandbox_run", run).kind, Kind::Invalid, "{input}");
    }

    let all = world.ok("run_a", "sandbox_list", json!({"all": true}));
    assert_eq!(all["sandboxes"], json!([]));
}

#[test]
fn nothing_can_be_done_to_a_sandbox_that_has_more() {
    let world = World::new();
    let wide = world.ok("run_a", "sandbox_open", json!({"session_key": "user:wide", "network": "open"}));
    let wide = id(&wide);
    let exec = world.exec("run_a", &wide, &["echo", "x"])["exec_id"].as_str().expect("text").to_owned();
    let who = model(json!({}), &[]);

    for (name, input) in inputs_about(&wide, &exec) {
        assert_eq!(refused(&world, &who, name, input).kind, Kind::Denied, "{name}");
    }
    let by_key = refused(&world, &who, "sandbox_open", json!({"session_key": "user:wide"}));

    assert_eq!(by_key.kind, Kind::Denied);
    assert!(world.record(&wide).state.accepts_work());
    let narrowed = world.ok("run_a", "sandbox_network", json!({"sandbox_id": wide, "network": "none"}));
    assert_eq!(narrowed["network"], "none");
    let input = json!({"sandbox_id": wide, "cmd": ["echo", "x"]});
    world.engine.call(&who, "sandbox_exec", input).expect("it has no more now");
}

#[test]
fn a_sandbox_that_is_nobodys_and_has_more_is_not_taken() {
    let world = World::new();
    let wide = id(&world.ok("run_a", "sandbox_open", json!({"session_key": "user:w", "network": "open"})));
    world.ok("run_a", "sandbox_release", json!({"sandbox_id": wide}));

    for (name, input) in
        [("sandbox_open", json!({"session_key": "user:w"})), ("sandbox_claim", json!({"sandbox_id": wide}))]
    {
        assert_eq!(refused(&world, &model(json!({}), &[]), name, input).kind, Kind::Denied, "{name}");
    }

    assert_eq!(world.record(&wide).lease.owner(), None);
}

#[test]
fn what_is_everybodys_is_not_a_models() {
    let world = World::new();
    world.ok("run_a", "sandbox_open", json!({"mounts": [{"source": "mine", "target": "/x"}]}));
    let given = json!({"mounts": [{"source": "given", "target": "/workspace"}]});
    let who = model(given, &[]);
    opened(&world, &who, json!({}));

    for (name, input) in [
        ("image_build", json!({"context": "/", "tag": "localhost/x"})),
        ("image_load", json!({"path": "/etc/passwd"})),
        ("image_prepull", json!({})),
        ("image_remove", json!({"name": "python:3.12"})),
        ("image_remove", json!({"name": "img_01m7h5k607aaaaaaaaaaaaaaaa"})),
        ("image_list", json!({"backend": "fake"})),
        ("volume_list", json!({"backend": "fake"})),
        ("volume_remove", json!({"name": "mine"})),
        ("volume_remove", json!({"name": "given"})),
    ] {
        assert_eq!(refused(&world, &who, name, input).kind, Kind::Denied, "{name}");
    }
    let pulled = refused(&world, &who, "image_pull", json!({"reference": "python:3.12"}));

    assert_eq!(pulled.kind, Kind::Invalid);
    let volumes = world.engine.call(&who, "volume_list", json!({})).expect("its own are shown");
    let names: Vec<_> =
        volumes["volumes"].as_array().expect("a list").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["given"]);
}

/// With a token a model may mount nothing, so no volume of its tenant is its to see or delete.
#[test]
fn a_model_with_a_token_keeps_away_from_volumes_of_its_tenant() {
    let world = World::new();
    let tenant = Caller { tenant: Some(sample::tenant("acme")), ..caller("run_a") };
    let mounted = json!({"mounts": [{"source": "data", "target": "/x"}]});
    let program = opened(&world, &tenant, mounted);
    world.engine.call(&tenant, "sandbox_close", json!({"sandbox_id": program.id})).expect("it is its own");
    let ceiling = Ceiling::of_model_with_token(None, &Policy::default()).expect("it is allowed");
    let model = tenant.clone().below(ceiling);

    let removed = refused(&world, &model, "volume_remove", json!({"name": "data"}));
    let listed =
        |who: &Caller| world.engine.call(who, "volume_list", json!({})).expect("a list")["volumes"].clone();

    assert_eq!((removed.kind, listed(&model)), (Kind::Denied, json!([])));
    assert_eq!(listed(&tenant)[0]["name"], "data");
}

/// The person and a model at a door they started act for the same run; what tells their sandboxes apart is what is in them.
#[test]
fn a_sandbox_of_the_persons_with_other_contents_is_neither_entered_nor_listed() {
    let world = World::new();
    world.backend.image_shelf().publish("tools", &["aaa"], coracle_core::image::Config::default());
    let who = model(json!({"env": {"MODE": "agent"}}), &[]);
    let own = opened(&world, &who, json!({"session_key": "user:own"}));

    for (key, more) in [
        ("user:secret", json!({"env": {"TOKEN": "abc"}})),
        ("user:mode", json!({"env": {"MODE": "person"}})),
        ("user:tools", json!({"image": "tools"})),
    ] {
        let mut input = more.clone();
        input["session_key"] = json!(key);
        let persons = id(&world.ok("run_a", "sandbox_open", input));

        let by_key = refused(&world, &who, "sandbox_open", json!({"session_key": key}));
        let by_id = refused(&world, &who, "sandbox_exec", json!({"sandbox_id": persons, "cmd": ["env"]}));
        let events = refused(&world, &who, "event_list", json!({"sandbox_id": persons}));

        assert_eq!([by_key.kind, by_id.kind, events.kind], [Kind::Denied; 3], "{more}");
    }

    let listed = world.engine.call(&who, "sandbox_list", json!({})).expect("a list");
    let stats = world.engine.call(&who, "sandbox_stats", json!({})).expect("a list");
    for shown in [listed, stats] {
        let ids: Vec<_> = shown["sandboxes"].as_array().expect("a list").iter().map(id).collect();
        assert_eq!(ids, std::slice::from_ref(&own.id));
    }
    assert_eq!(refused(&world, &who, "event_list", json!({})).kind, Kind::Invalid);
    world.engine.call(&who, "event_list", json!({"sandbox_id": own.id})).expect("its own");
}

/// A program has variables and a language of its own, which no other sandbox of the door has; it is gone all the same.
#[test]
fn a_program_with_variables_leaves_nothing() {
    let world = World::new();

    let input = json!({"cmd": ["true"], "env": {"A": "b"}});
    world.engine.call(model(json!({}), &[]), "sandbox_run", input).expect("it is allowed");

    assert_eq!(world.ok("run_a", "sandbox_list", json!({}))["sandboxes"], json!([]));
}

#[test]
fn what_may_be_chosen_may_be_less_and_forks_have_no_more() {
    let world = World::new();
    let who = model(json!({"network": "allow=a.test,b.test"}), &[Choice::Network, Choice::Limits]);

    let record = opened(&world, &who, json!({"network": "allow=b.test", "limits": {"memory_mb": 8}}));
    let forked =
        world.engine.call(&who, "sandbox_fork", json!({"sandbox_id": record.id})).expect("it is its own");
    let wider = refused(&world, &who, "sandbox_open", json!({"network": "open"}));

    let child = forked["sandbox_ids"][0].as_str().expect("text").parse().expect("an id");
    assert_eq!(world.record(&child).spec, record.spec);
    assert_eq!(record.spec.network.to_string(), "allow=b.test");
    assert_eq!((wider.kind, &wider.details["max"]), (Kind::Denied, &json!("allow=a.test,b.test")));
}

#[test]
fn a_tokens_bounds_are_applied_in_the_same_place() {
    let world = World::new();
    let bounds = Bounds {
        network: Some(Network::None),
        limits: LimitsInput { memory_mb: Some(64), ..LimitsInput::default() },
        ..Bounds::default()
    };
    let tenant = Caller { tenant: Some(sample::tenant("acme")), ..caller("run_a") };
    let bounded = tenant.clone().below(Ceiling::of_token(bounds));

    let record = opened(&world, &bounded, json!({"mounts": [{"source": "v", "target": "/x"}]}));
    let higher = refused(&world, &bounded, "sandbox_open", json!({"limits": {"memory_mb": 65}}));
    let wide = opened(&world, &tenant, json!({"limits": {"memory_mb": 65}}));
    let entered = refused(&world, &bounded, "sandbox_exec", json!({"sandbox_id": wide.id, "cmd": ["true"]}));

    assert_eq!(record.spec.limits.memory_mb, Some(64));
    assert_eq!((higher.kind, entered.kind), (Kind::Denied, Kind::Denied));
    assert_eq!(higher.details["max"], 64);
}

#[test]
fn a_door_that_gives_something_else_now_does_not_find_the_old_sandbox() {
    let world = World::new();
    let old = json!({"network": "allow=a.test", "limits": {"memory_mb": 64}});
    let key = json!({"session_key": "user:x"});
    let record = opened(&world, &model(old.clone(), &[]), key.clone());
    let wider = json!({"network": "open", "limits": {"memory_mb": 64}});

    let conflict = refused(&world, &model(wider, &[]), "sandbox_open", key.clone());
    let again = opened(&world, &model(old, &[]), key);

    assert_eq!((conflict.kind, &conflict.details["fields"]), (Kind::Conflict, &json!(["network"])));
    assert_eq!(conflict.details["sandbox_id"], record.id.as_str());
    assert!(conflict.hint.as_deref().is_some_and(|hint| hint.contains("`sandbox_close`")), "{conflict:?}");
    assert_eq!(again.id, record.id);
}

#[test]
fn what_a_model_chose_once_it_need_not_choose_again() {
    let world = World::new();
    let given = json!({"network": "open", "limits": {"memory_mb": 64}, "ttl": "5m"});
    let who = model(given, &[Choice::Network, Choice::Limits]);
    let chosen = json!({"session_key": "user:x", "network": "none", "limits": {"memory_mb": 8}});
    let record = opened(&world, &who, chosen);

    let found = opened(&world, &who, json!({"session_key": "user:x"}));
    let other = json!({"session_key": "user:x", "limits": {"memory_mb": 16}});
    let conflict = refused(&world, &who, "sandbox_open", other);

    assert_eq!(found.id, record.id);
    assert_eq!((conflict.kind, &conflict.details["fields"]), (Kind::Conflict, &json!(["limits.memory_mb"])));
}

#[test]
fn bounds_of_a_token_are_nobodys_wish() {
    let world = World::new();
    let bounded = |memory_mb| {
        let limits = LimitsInput { memory_mb: Some(memory_mb), ..LimitsInput::default() };
        caller("run_a").below(Ceiling::of_token(Bounds { limits, ..Bounds::default() }))
    };
    let record = opened(&world, &bounded(64), json!({"session_key": "user:x"}));

    let found = opened(&world, &bounded(128), json!({"session_key": "user:x"}));

    assert_eq!(found.id, record.id);
}
