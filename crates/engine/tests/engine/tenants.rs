//! Tenants: none sees, reaches or learns of anything of another's, and each has its own names and its own bounds.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use coracle_core::image::{Allowed, Config};
use coracle_core::tenant::{TenantPolicy, Tenants};
use coracle_core::{Error, ExecId, Kind, Policy, SandboxId};
use coracle_engine::{Caller, Catalogue, Engine, Parts};
use coracle_testing::sample;
use serde_json::{Value, json};

use crate::world::{World, caller, parts};

/// Somebody of a tenant's, who calls the run what everybody calls it.
fn of(tenant: &str) -> Caller {
    Caller { tenant: Some(sample::tenant(tenant)), ..caller("run_a") }
}

fn call(world: &World, who: &Caller, name: &str, input: Value) -> Result<Value, Error> {
    world.engine.call(who, name, input)
}

fn ok(world: &World, who: &Caller, name: &str, input: Value) -> Value {
    call(world, who, name, input).unwrap_or_else(|error| panic!("`{name}` failed: {}", error.to_json()))
}

fn refused(world: &World, who: &Caller, name: &str, input: Value) -> Error {
    call(world, who, name, input).expect_err(name)
}

fn open(world: &World, who: &Caller) -> SandboxId {
    let opened = ok(world, who, "sandbox_open", json!({}));
    opened["sandbox_id"].as_str().expect("text").parse().expect("an id")
}

/// Returns an input for every operation that is about one sandbox.
pub fn inputs_about(id: &SandboxId, exec: &str) -> Vec<(&'static str, Value)> {
    let mut all = vec![
        ("sandbox_exec", json!({"cmd": ["true"]})),
        ("sandbox_exec_read", json!({"exec_id": exec})),
        ("sandbox_exec_wait", json!({"exec_id": exec, "timeout_ms": 1})),
        ("sandbox_exec_stop", json!({"exec_id": exec})),
        ("sandbox_exec_write", json!({"exec_id": exec, "data": "x"})),
        ("sandbox_fs_write", json!({"path": "x", "contents": "x"})),
        ("sandbox_fs_read", json!({"path": "x"})),
        ("sandbox_fs_list", json!({})),
        ("sandbox_fs_delete", json!({"path": "x"})),
        ("sandbox_fs_stat", json!({"path": "x"})),
        ("sandbox_fs_move", json!({"from": "x", "to": "y"})),
        ("sandbox_close", json!({"delete_workspace": true})),
        ("sandbox_get", json!({})),
        ("sandbox_pause", json!({})),
        ("sandbox_resume", json!({})),
        ("sandbox_fork", json!({})),
        ("sandbox_snapshot", json!({})),
        ("sandbox_claim", json!({})),
        ("sandbox_transfer", json!({"to": "run_b"})),
        ("sandbox_release", json!({})),
        ("sandbox_network", json!({"network": "none"})),
    ];
    for (_, input) in &mut all {
        input["sandbox_id"] = json!(id);
    }
    all
}

#[test]
fn foreign_ids_are_answered_like_ids_that_never_were() {
    let world = World::new();
    let (mine, theirs) = (open(&world, &of("mine")), open(&world, &of("theirs")));
    let own = world.open("run_a");
    let started =
        ok(&world, &of("theirs"), "sandbox_exec", json!({"sandbox_id": theirs, "cmd": ["echo", "x"]}));
    let exec = started["exec_id"].as_str().expect("text");
    let never: SandboxId = "sbx_00000000000000000000000000".parse().expect("an id");

    for foreign in [&theirs, &own] {
        for (name, input) in inputs_about(foreign, exec) {
            let told = refused(&world, &of("mine"), name, input);
            let (_, unknown) = inputs_about(&never, exec)
                .into_iter()
                .find(|(other, _)| *other == name)
                .expect("the same list");
            let expected = refused(&world, &of("mine"), name, unknown);

            let shown = told.to_json().to_string().replace(foreign.as_str(), never.as_str());
            assert_eq!(told.kind, Kind::NotFound, "{name}: {}", told.to_json());
            assert_eq!(shown, expected.to_json().to_string(), "{name}");
        }
    }
    // Nothing of it happened.
    assert_eq!(world.record(&theirs).lease.owner(), Some(&sample::run("run_a")));
    assert!(world.record(&own).state.accepts_work() && world.record(&mine).state.accepts_work());
}

#[test]
fn the_list_of_what_is_about_one_sandbox_is_whole() {
    let id = sample::sandbox();
    let listed: Vec<_> = inputs_about(&id, "exec_1").into_iter().map(|(name, _)| name).collect();

    for name in Catalogue::own().names() {
        let schema = Catalogue::own().expect(name).expect("it is there").schemas();
        let about_one =
            schema["input"]["required"].as_array().is_some_and(|all| all.contains(&json!("sandbox_id")));
        assert_eq!(about_one, listed.contains(&name), "{name}");
    }
}

#[test]
fn streams_controls_files_and_ports_of_others_are_not_found() {
    let world = World::new();
    let theirs = open(&world, &of("theirs"));
    let exec: ExecId = "exec_1".parse().expect("an id");
    let (engine, me) = (&world.engine, of("mine"));

    let kinds = [
        engine.execs().follow(&me, &theirs, &exec, 0).map(drop),
        engine.execs().control(&me, &theirs, &exec).map(drop),
        engine.execs().attach(&me, &theirs).map(drop),
        engine.entry().check_entry(&me, &theirs),
    ]
    .map(|refused| refused.expect_err("it is refused").kind);

    assert_eq!(kinds, [Kind::NotFound; 4]);
}

#[test]
fn a_tenant_lists_its_own_and_the_homes_people_see_all() {
    let world = World::new();
    let (mine, theirs, own) = (open(&world, &of("mine")), open(&world, &of("theirs")), world.open("run_a"));
    let listed = |who: &Caller| -> BTreeSet<String> {
        let reply = ok(&world, who, "sandbox_list", json!({"all": true}));
        let ids = reply["sandboxes"].as_array().expect("a list").iter().map(|one| one["sandbox_id"].as_str());
        ids.map(|id| id.expect("text").to_owned()).collect()
    };
    let ids = |ids: &[&SandboxId]| ids.iter().map(ToString::to_string).collect::<BTreeSet<_>>();

    assert_eq!(listed(&of("mine")), ids(&[&mine]));
    assert_eq!(listed(&of("theirs")), ids(&[&theirs]));
    assert_eq!(listed(&of("nobody")), ids(&[]));
    assert_eq!(listed(&caller("run_a")), ids(&[&mine, &theirs, &own]));
}

#[test]
fn a_fork_is_its_parents_tenants_whoever_asked() {
    let world = World::new();
    let mine = open(&world, &of("mine"));

    let forked = world.ok("run_a", "sandbox_fork", json!({"sandbox_id": mine}));

    let child = forked["sandbox_ids"][0].clone();
    ok(&world, &of("mine"), "sandbox_get", json!({"sandbox_id": child}));
    assert_eq!(
        refused(&world, &of("theirs"), "sandbox_get", json!({"sandbox_id": child})).kind,
        Kind::NotFound
    );
}

#[test]
fn a_snapshot_is_used_listed_and_removed_by_its_tenant_only() {
    let world = World::new();
    let mine = open(&world, &of("mine"));
    let image = ok(&world, &of("mine"), "sandbox_snapshot", json!({"sandbox_id": mine}))["image"].clone();
    let never = json!("img_00000000000000000000000000");
    let names =
        |who: &Caller| ok(&world, who, "image_list", json!({}))["images"].as_array().map_or(0, Vec::len);

    ok(&world, &of("mine"), "sandbox_open", json!({"image": image}));
    assert_eq!((names(&of("mine")), names(&of("theirs")), names(&caller("run_a"))), (1, 0, 1));
    for (name, field) in [("sandbox_open", "image"), ("sandbox_run", "image"), ("image_remove", "name")] {
        let mut input = json!({field: image});
        let mut unknown = json!({field: never});
        if name == "sandbox_run" {
            (input["cmd"], unknown["cmd"]) = (json!(["true"]), json!(["true"]));
        }
        let told = refused(&world, &of("theirs"), name, input).to_json().to_string();
        let expected = refused(&world, &of("theirs"), name, unknown).to_json().to_string();

        let image = image.as_str().expect("text");
        assert_eq!(told.replace(image, never.as_str().expect("text")), expected, "{name}");
        assert!(told.contains("image_not_found"), "{told}");
    }
    ok(&world, &of("mine"), "image_remove", json!({"name": image}));
    assert_eq!(names(&caller("run_a")), 0);
}

#[test]
fn no_row_is_left_of_a_sandbox_that_was_to_be_made_from_anothers_snapshot() {
    let world = World::new();
    let mine = open(&world, &of("mine"));
    let image = ok(&world, &of("mine"), "sandbox_snapshot", json!({"sandbox_id": mine}))["image"].clone();

    refused(&world, &of("theirs"), "sandbox_open", json!({"image": image}));

    assert_eq!(ok(&world, &of("theirs"), "sandbox_list", json!({"all": true}))["sandboxes"], json!([]));
}

#[test]
fn one_name_is_another_volume_for_each_tenant() {
    let world = World::new();
    let on_cache = json!({"mounts": [{"source": "cache", "target": "/workspace"}]});
    let mine = ok(&world, &of("mine"), "sandbox_open", on_cache.clone());
    let theirs = ok(&world, &of("theirs"), "sandbox_open", on_cache.clone());
    world.ok("run_a", "sandbox_open", on_cache);
    let listed = |who: &Caller| ok(&world, who, "volume_list", json!({}))["volumes"].clone();

    let names: Vec<_> = listed(&caller("run_a"))
        .as_array()
        .expect("a list")
        .iter()
        .map(|volume| volume["name"].as_str().expect("text").to_owned())
        .collect();

    assert_eq!(names, ["cache", "tnt:4:mine:cache", "tnt:6:theirs:cache"]);
    assert_eq!(listed(&of("mine"))[0]["name"], "cache");
    assert_eq!(listed(&of("mine"))[0]["used_by"], json!([mine["sandbox_id"]]));
    assert_eq!(mine["mounts"][0]["source"], "cache");
    let shown = ok(&world, &of("mine"), "sandbox_get", json!({"sandbox_id": mine["sandbox_id"]})).to_string();
    assert!(!shown.contains("tnt:"), "{shown}");
    // Closing mine with its workspace leaves the others' alone.
    let input = json!({"sandbox_id": mine["sandbox_id"], "delete_workspace": true});
    assert_eq!(ok(&world, &of("mine"), "sandbox_close", input)["deleted_volume"], "cache");
    assert_eq!(listed(&of("mine")), json!([]));
    assert_eq!(listed(&of("theirs"))[0]["used_by"], json!([theirs["sandbox_id"]]));
}

#[test]
fn volumes_of_others_cannot_be_removed_whatever_one_calls_them() {
    let world = World::new();
    let mounts = json!({"mounts": [{"source": "cache", "target": "/cache"}]});
    let theirs = ok(&world, &of("theirs"), "sandbox_open", mounts);
    ok(&world, &of("theirs"), "sandbox_close", json!({"sandbox_id": theirs["sandbox_id"]}));

    for name in ["cache", "tnt:6:theirs:cache", "theirs:cache"] {
        let error = refused(&world, &of("mine"), "volume_remove", json!({"name": name}));

        assert_eq!(error.kind, Kind::NotFound, "{name}");
        assert!(!error.to_json().to_string().contains("tnt:4"), "{}", error.to_json());
    }
    ok(&world, &of("theirs"), "volume_remove", json!({"name": "cache"}));
}

#[test]
fn what_has_to_do_with_the_machine_is_not_for_tenants() {
    let world = World::new();
    let me = of("mine");
    let directory = json!({"mounts": [{"source": "/etc", "target": "/x"}]});
    let far = json!({"backend": "ssh://root@example.com"});
    let fallback = json!({"fallback": ["ssh://root@example.com"]});

    for (name, input) in [
        ("image_load", json!({"path": "/etc/passwd"})),
        ("image_build", json!({"context": "/etc", "tag": "x"})),
        ("image_prepull", json!({})),
        ("image_remove", json!({"name": "alpine"})),
        ("image_list", far.clone()),
        ("volume_list", far.clone()),
        ("volume_remove", json!({"name": "x", "backend": "ssh://root@example.com"})),
        ("image_pull", json!({"reference": "alpine", "backend": "ssh://root@example.com"})),
        ("sandbox_open", directory.clone()),
        ("sandbox_open", far),
        ("sandbox_open", fallback),
        ("sandbox_open", json!({"limits": "unlimited"})),
        ("sandbox_run", json!({"cmd": ["true"], "limits": "unlimited"})),
    ] {
        let error = refused(&world, &me, name, input.clone());

        assert_eq!(error.kind, Kind::Denied, "{name} {input}: {}", error.to_json());
    }
    world.ok("run_a", "sandbox_open", directory);
}

fn ruled(named: TenantPolicy, others: TenantPolicy) -> World {
    let tenants = Tenants { named: [(sample::tenant("mine"), named)].into(), others };
    World::ruled_by(Policy { tenants, ..Policy::default() })
}

#[test]
fn each_tenant_has_so_many_sandboxes_and_no_more() {
    let world = ruled(
        TenantPolicy { sandboxes: 2, ..Default::default() },
        TenantPolicy { sandboxes: 1, ..Default::default() },
    );
    let first = open(&world, &of("mine"));
    open(&world, &of("mine"));
    open(&world, &of("theirs"));

    let third = refused(&world, &of("mine"), "sandbox_open", json!({}));
    let fork = refused(&world, &of("mine"), "sandbox_fork", json!({"sandbox_id": first}));
    let run = refused(&world, &of("theirs"), "sandbox_run", json!({"cmd": ["true"]}));

    assert_eq!([third.kind, fork.kind, run.kind], [Kind::LimitExceeded; 3]);
    assert_eq!((&third.details["max"], &run.details["max"]), (&json!(2), &json!(1)));
    let rows = ok(&world, &of("mine"), "sandbox_list", json!({"all": true}))["sandboxes"].clone();
    assert_eq!(rows.as_array().map(Vec::len), Some(2), "a refusal leaves no row");
    // Others are not in the way, and what is closed makes room.
    world.open("run_a");
    ok(&world, &of("mine"), "sandbox_close", json!({"sandbox_id": first}));
    open(&world, &of("mine"));
}

#[test]
fn a_tenants_sleepers_take_no_place_and_are_bounded_where_one_more_is_opened() {
    let rules = TenantPolicy { sandboxes: 1, hibernated: 1, ..Default::default() };
    let (world, me) = (ruled(rules, TenantPolicy::default()), of("mine"));
    let open_for_sleep = || call(&world, &me, "sandbox_open", json!({"on_idle": "hibernate"}));
    let opened = open_for_sleep().expect("it is the first");
    let sleeper: SandboxId = opened["sandbox_id"].as_str().expect("text").parse().expect("an id");
    let exec = || call(&world, &me, "sandbox_exec", json!({"sandbox_id": sleeper, "cmd": ["true"]}));
    world.backend.kill_guest(&sleeper);
    world.engine.upkeep().sweep().expect("a sweep");

    let second = open_for_sleep().expect_err("one sleeps already");
    let run = ok(&world, &me, "sandbox_run", json!({"cmd": ["true"]}));
    let awake = ok(&world, &me, "sandbox_open", json!({"on_idle": "destroy"}))["sandbox_id"].clone();
    let no_place = exec().expect_err("there is no place to wake in");

    assert_eq!((second.kind, &second.details["limit"]), (Kind::LimitExceeded, &json!("tenants.hibernated")));
    assert_eq!(run["exit_code"], 0);
    assert_eq!(no_place.kind, Kind::LimitExceeded, "{}", no_place.chain());
    assert_eq!(world.record(&sleeper).state, coracle_core::State::Hibernated);
    ok(&world, &me, "sandbox_close", json!({"sandbox_id": awake}));
    exec().expect("there is a place now");
    assert_eq!(world.record(&sleeper).state, coracle_core::State::Ready);
}

#[test]
fn of_many_who_ask_at_once_as_many_get_one_as_there_is_room_for() {
    let world = ruled(TenantPolicy { sandboxes: 3, ..Default::default() }, TenantPolicy::default());
    let me = of("mine");

    let opened = std::thread::scope(|scope| {
        let askers: Vec<_> =
            (0..12).map(|_| scope.spawn(|| call(&world, &me, "sandbox_open", json!({})).is_ok())).collect();
        askers
            .into_iter()
            .filter(|_| true)
            .map(|asker| asker.join().expect("no panic"))
            .filter(|ok| *ok)
            .count()
    });

    assert_eq!(opened, 3);
}

#[test]
fn two_daemons_together_give_a_tenant_no_more_than_it_may_have() {
    let rules = TenantPolicy { sandboxes: 3, ..Default::default() };
    let world = ruled(rules, TenantPolicy::default());
    let parts = parts(&world.store, &world.backend, &world.clock, &world.keepers);
    let other = Engine::new(Parts { policy: world.engine.policy().clone(), ..parts });
    let me = of("mine");

    let opened = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..12)
            .map(|number| if number % 2 == 0 { &world.engine } else { &other })
            .map(|engine| scope.spawn(|| engine.call(&me, "sandbox_open", json!({})).is_ok()))
            .collect();
        askers.into_iter().map(|asker| asker.join().expect("no panic")).filter(|ok| *ok).count()
    });

    assert_eq!(opened, 3);
}

#[test]
fn all_who_open_one_key_for_the_last_place_get_the_same_sandbox() {
    let world = ruled(TenantPolicy { sandboxes: 1, ..Default::default() }, TenantPolicy::default());
    let (me, input) = (of("mine"), json!({"session_key": "build"}));

    let opened: BTreeSet<_> = std::thread::scope(|scope| {
        let askers: Vec<_> =
            (0..8).map(|_| scope.spawn(|| ok(&world, &me, "sandbox_open", input.clone()))).collect();
        let replies = askers.into_iter().map(|asker| asker.join().expect("no panic"));
        replies.map(|reply| reply["sandbox_id"].to_string()).collect()
    });

    assert_eq!(opened.len(), 1);
}

#[test]
fn spares_do_not_lead_past_the_last_place() {
    let world = ruled(TenantPolicy { sandboxes: 1, ..Default::default() }, TenantPolicy::default());
    let (me, light) = (of("mine"), json!({"storage": "memory"}));
    let pool = world.engine.lifecycle().keep_spares(4);
    world.ok("run_a", "sandbox_open", light.clone());
    let deadline = Instant::now() + Duration::from_secs(10);
    while pool.ready() < 4 {
        assert!(Instant::now() < deadline, "there are {} spares", pool.ready());
        std::thread::yield_now();
    }

    let replies: Vec<_> = std::thread::scope(|scope| {
        let askers: Vec<_> =
            (0..8).map(|_| scope.spawn(|| call(&world, &me, "sandbox_open", light.clone()))).collect();
        askers.into_iter().map(|asker| asker.join().expect("no panic")).collect()
    });

    let (opened, refused): (Vec<_>, Vec<_>) = replies.into_iter().partition(Result::is_ok);
    assert_eq!((opened.len(), refused.len()), (1, 7));
    assert!(refused.iter().all(|refused| matches!(refused, Err(error) if error.kind == Kind::LimitExceeded)));
}

#[test]
fn each_tenant_has_its_own_images() {
    let images = Allowed::only(vec!["registry.test/mine".to_owned()]).expect("a list");
    let world = ruled(TenantPolicy { images: Some(images), ..Default::default() }, TenantPolicy::default());
    for name in ["registry.test/mine:1", "registry.test/other:1"] {
        world.backend.image_shelf().publish(name, &["base"], Config::default());
        world.ok("run_a", "image_pull", json!({"reference": name}));
    }
    let listed =
        |who: &Caller| ok(&world, who, "image_list", json!({}))["images"].as_array().map_or(0, Vec::len);

    ok(&world, &of("mine"), "sandbox_open", json!({"image": "registry.test/mine:1"}));
    for name in ["sandbox_open", "image_pull"] {
        let field = if name == "image_pull" { "reference" } else { "image" };
        let error = refused(&world, &of("mine"), name, json!({field: "registry.test/other:1"}));
        assert_eq!(error.kind, Kind::ImageNotAllowed, "{name}");
    }
    assert_eq!((listed(&of("mine")), listed(&of("theirs"))), (1, 2));
}

#[test]
fn one_key_is_another_sandbox_for_each_tenant() {
    let world = World::new();
    let key = json!({"session_key": "build"});

    let mine = ok(&world, &of("mine"), "sandbox_open", key.clone());
    let theirs = ok(&world, &of("theirs"), "sandbox_open", key.clone());
    let again = ok(&world, &of("mine"), "sandbox_open", key);

    assert_ne!(mine["sandbox_id"], theirs["sandbox_id"]);
    assert_eq!((&again["sandbox_id"], &again["created"]), (&mine["sandbox_id"], &json!(false)));
}
