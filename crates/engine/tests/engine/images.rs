//! Images: brought, listed, removed, and what they say of themselves.

use std::io::Write;

use coracle_core::image::{Allowed, Config};
use coracle_core::spec::Runtime;
use coracle_core::{Kind, Policy, SandboxId, Spec};
use coracle_engine::ExecRequest;
use coracle_engine::janitor::Report;
use coracle_testing::sample;
use serde_json::{Value, json};

use crate::world::{World, argv};

const PYTHON: &str = "docker.io/library/python:3.12";

/// Publishes `python:3.12` and `node:22`, which share a layer.
fn publish_two(world: &World) {
    let shelf = world.backend.image_shelf();
    shelf.publish(PYTHON, &["debian", "python"], Config::default());
    shelf.publish("docker.io/library/node:22", &["debian", "node"], Config::default());
}

fn publish(world: &World, name: &str, config: Config) {
    world.backend.image_shelf().publish(name, &["layer"], config);
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn only(patterns: &[&str]) -> Policy {
    let patterns = patterns.iter().map(ToString::to_string).collect();
    Policy { images: Allowed::only(patterns).expect("valid patterns"), ..Policy::default() }
}

fn nothing_is_live(world: &World) -> bool {
    world.ok("run_a", "sandbox_list", json!({}))["sandboxes"] == json!([])
}

fn names(world: &World) -> Vec<String> {
    let listed = world.ok("run_a", "image_list", json!({}));
    let images = listed["images"].as_array().expect("a list").iter();
    images.map(|image| image["reference"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_short_name_is_pulled_by_its_whole_one() {
    let world = World::new();
    publish_two(&world);

    let pulled = world.ok("run_a", "image_pull", json!({"reference": "python:3.12"}));
    let again = world.ok("run_a", "image_pull", json!({"reference": PYTHON, "backend": "fake"}));

    assert_eq!(pulled["reference"], PYTHON);
    assert_eq!(pulled["layers"], 2);
    assert_eq!(again["digest"], pulled["digest"]);
    assert_eq!(world.backend.image_shelf().transfers(), 2);
}

#[test]
fn what_the_registry_does_not_have_is_not_found() {
    let world = World::new();

    let error = world.refused("run_a", "image_pull", json!({"reference": "python:2.4"}));

    assert_eq!(error.kind, Kind::ImageNotFound);
    assert_eq!(error.details["image"], "docker.io/library/python:2.4");
}

#[test]
fn what_is_no_reference_is_refused_by_its_field() {
    let world = World::new();

    for text in ["", "--flag", "PYTHON", "user:pw@docker.io/python", "host"] {
        let error = world.refused("run_a", "image_pull", json!({ "reference": text }));
        assert_eq!((error.kind, &error.details["field"]), (Kind::Invalid, &json!("reference")), "{text}");
    }
    assert_eq!(world.refused("run_a", "image_remove", json!({"name": "host"})).kind, Kind::Invalid);
}

#[test]
fn only_allowed_images_are_pulled_and_used() {
    let world = World::ruled_by(only(&["node"]));
    publish_two(&world);

    let pull = world.refused("run_a", "image_pull", json!({"reference": "python:3.12"}));
    let open = world.refused("run_a", "sandbox_open", json!({"image": "python:3.12"}));
    let default = world.refused("run_a", "sandbox_run", json!({"cmd": ["true"]}));

    assert_eq!([pull.kind, open.kind, default.kind], [Kind::ImageNotAllowed; 3]);
    assert_eq!(world.backend.image_shelf().transfers(), 0);
    world.ok("run_a", "image_pull", json!({"reference": "node:22"}));
}

#[test]
fn images_are_listed_by_name() {
    let world = World::new();
    publish_two(&world);

    for reference in ["python:3.12", "node:22"] {
        world.ok("run_a", "image_pull", json!({ "reference": reference }));
    }

    assert_eq!(names(&world), ["docker.io/library/node:22", PYTHON]);
}

#[test]
fn an_image_is_removed_by_name_digest_or_the_beginning_of_one() {
    let world = World::new();
    publish_two(&world);
    let pull = || world.ok("run_a", "image_pull", json!({"reference": PYTHON}));
    let digest = pull()["digest"].as_str().expect("a digest").to_owned();
    let digits = digest.strip_prefix("sha256:").expect("of its form");

    for name in ["python:3.12", &digest, &digest[..19], &digits[..12], digits] {
        pull();
        let removed = world.ok("run_a", "image_remove", json!({ "name": name }));
        assert_eq!(removed["references"], json!([PYTHON]), "{name}");
        assert_eq!(removed["layers"], 2, "{name}");
        assert_eq!(names(&world), [""; 0], "{name}");
    }
}

#[test]
fn removing_what_is_not_here_is_not_found() {
    let world = World::new();
    let digest = format!("sha256:{}", "0".repeat(64));

    for name in ["python:3.12", "000000000000", &digest, &digest[7..]] {
        let error = world.refused("run_a", "image_remove", json!({ "name": name }));
        assert_eq!(error.kind, Kind::ImageNotFound, "{name}: {}", error.chain());
    }
}

#[test]
fn a_shared_layer_stays_with_whoever_else_uses_it() {
    let world = World::new();
    publish_two(&world);
    world.ok("run_a", "image_pull", json!({"reference": "python:3.12"}));
    let node = world.ok("run_a", "sandbox_open", json!({"image": "node:22"}));

    let python = world.ok("run_a", "image_remove", json!({"name": "python:3.12"}));
    let in_use = world.ok("run_a", "image_remove", json!({"name": "node:22"}));
    world.ok("run_a", "sandbox_close", json!({"sandbox_id": node["sandbox_id"]}));
    let report = world.engine.upkeep().gc().expect("a sweep");

    assert_eq!((&python["layers"], &in_use["layers"]), (&json!(1), &json!(0)));
    assert_eq!((report.layers, report.layer_bytes, report.trouble.len()), (2, 10_000, 0));
}

#[test]
fn what_a_swept_sandbox_used_is_collected_with_it() {
    let world = World::new();
    publish_two(&world);
    world.ok("run_a", "sandbox_open", json!({"image": "python:3.12"}));
    world.ok("run_a", "image_remove", json!({"name": "python:3.12"}));

    let report = world.after_reboot().upkeep().gc().expect("a sweep");

    assert_eq!(report, Report { lost: 1, layers: 2, layer_bytes: 12_000, ..Report::default() });
}

#[test]
fn what_cannot_be_quarantined_by_the_rules_of_today_is_noticed_all_the_same() {
    let world = World::ruled_by(only(&["python"]));
    world.backend.plant(&sample::sandbox());

    assert_eq!(
        world.engine.upkeep().sweep().expect("a sweep"),
        Report { quarantined: 1, ..Report::default() }
    );
}

#[test]
fn a_pull_that_broke_off_is_collected() {
    let world = World::new();
    publish_two(&world);
    world.backend.image_shelf().break_next_pull();

    let error = world.refused("run_a", "image_pull", json!({"reference": "python:3.12"}));
    let report = world.engine.upkeep().gc().expect("a sweep");

    assert_eq!(error.kind, Kind::NotAvailable);
    assert_eq!(names(&world), [""; 0]);
    assert_eq!(report.layers, 1);
}

#[test]
fn an_archive_is_loaded_from_a_regular_file() {
    let world = World::new();
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("archive");
    let mut archive = std::fs::File::create(&path).expect("ours");
    archive.write_all(b"docker.io/library/a:1 base a\ndocker.io/library/b:1 base b\n").expect("ours");

    let loaded = world.ok("run_a", "image_load", json!({ "path": path }));

    assert_eq!(loaded["images"].as_array().map(Vec::len), Some(2));
    assert_eq!(names(&world), ["docker.io/library/a:1", "docker.io/library/b:1"]);
}

#[test]
fn what_is_no_archive_is_refused() {
    let world = World::new();
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("archive");
    std::fs::write(&path, "nonsense").expect("ours");
    let absent = place.path().join("absent");

    let kind = |path: Value| world.refused("run_a", "image_load", json!({ "path": path })).kind;

    assert_eq!(kind(json!(path)), Kind::Invalid);
    assert_eq!(kind(json!(absent)), Kind::NotFound);
    assert_eq!(kind(json!(place.path())), Kind::Invalid);
    assert_eq!(kind(json!("relative")), Kind::Invalid);
    assert_eq!(kind(json!("/dev/zero")), Kind::Invalid);
}

#[test]
fn a_backend_without_images_says_so() {
    let world = World::bare();

    let calls = [
        ("image_pull", json!({"reference": "python"})),
        ("image_list", json!({})),
        ("image_remove", json!({"name": "python"})),
    ];

    for (operation, input) in calls {
        assert_eq!(world.refused("run_a", operation, input).kind, Kind::Unsupported, "{operation}");
    }
    assert_eq!(world.engine.upkeep().gc().expect("a sweep"), Report::default());
}

#[test]
fn an_unknown_backend_is_refused() {
    let world = World::new();

    let error = world.refused("run_a", "image_list", json!({"backend": "docker"}));

    assert_eq!(error.kind, Kind::NotAvailable);
}

#[test]
fn a_sandbox_remembers_the_digest_it_was_made_from() {
    let world = World::new();
    publish_two(&world);

    let opened = world.ok("run_a", "sandbox_open", json!({"image": "python:3.12"}));
    // The name moves on; the sandbox does not.
    world.backend.image_shelf().publish(PYTHON, &["debian", "python", "patch"], Config::default());
    let moved = world.ok("run_a", "image_pull", json!({"reference": PYTHON}));
    let shown = world.ok("run_a", "sandbox_get", json!({"sandbox_id": opened["sandbox_id"]}));

    assert_eq!(opened["image"], PYTHON);
    assert_ne!(opened["image_digest"], moved["digest"]);
    assert_eq!(shown["image_digest"], opened["image_digest"]);
}

#[test]
fn the_machines_own_programs_have_no_digest() {
    let world = World::new();

    let opened = world.ok("run_a", "sandbox_open", json!({}));

    assert_eq!((&opened["image_digest"], &opened["mounts"]), (&Value::Null, &json!([])));
}

#[test]
fn a_failed_pull_leaves_no_sandbox() {
    let world = World::new();

    let error = world.refused("run_a", "sandbox_open", json!({"image": "nobody/nothing"}));

    assert_eq!(error.kind, Kind::ImageNotFound);
    assert!(nothing_is_live(&world));
}

#[test]
fn the_images_user_is_the_default_and_the_callers_wins() {
    let world = World::new();
    publish(&world, "app", Config { user: Some("1000:1000".to_owned()), ..Config::default() });
    let opened = world.ok("run_a", "sandbox_open", json!({"image": "app"}));
    let id: SandboxId = serde_json::from_value(opened["sandbox_id"].clone()).expect("an id");

    world.ok("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "exec_id": "by_image"}));
    world.ok(
        "run_a",
        "sandbox_exec",
        json!({"sandbox_id": id, "cmd": ["true"], "exec_id": "by_caller", "user": "nobody"}),
    );

    let user = |exec: &str| {
        world.backend.command(&id, exec).user.map(|user| String::from_utf8_lossy(&user).into_owned())
    };
    assert_eq!(user("by_image").as_deref(), Some("1000:1000"));
    assert_eq!(user("by_caller").as_deref(), Some("nobody"));
}

#[test]
fn an_image_that_names_an_impossible_user_needs_another() {
    let world = World::new();
    publish(&world, "app", Config { user: Some("a\nb".to_owned()), ..Config::default() });
    let opened = world.ok("run_a", "sandbox_open", json!({"image": "app"}));
    let exec = |user: Value| json!({"sandbox_id": opened["sandbox_id"], "cmd": ["true"], "user": user});

    let error = world.refused("run_a", "sandbox_exec", exec(Value::Null));

    assert_eq!((error.kind, error.hint.is_some()), (Kind::Invalid, true));
    world.ok("run_a", "sandbox_exec", exec(json!("root")));
}

#[test]
fn without_a_command_the_images_own_is_run() {
    let world = World::new();
    let (entrypoint, cmd) = (words("echo from"), words("the image"));
    publish(&world, "app", Config { entrypoint, cmd, ..Config::default() });

    let own = world.ok("run_a", "sandbox_run", json!({"image": "app"}));
    let given = world.ok("run_a", "sandbox_run", json!({"image": "app", "cmd": ["echo", "mine"]}));

    assert_eq!((&own["stdout"], &own["runtime"]), (&json!("from the image\n"), &Value::Null));
    assert_eq!(given["stdout"], "mine\n");
    assert!(nothing_is_live(&world));
}

#[test]
fn an_image_without_a_command_needs_one() {
    let world = World::new();
    publish(&world, "app", Config::default());

    let error = world.refused("run_a", "sandbox_run", json!({"image": "app"}));
    let arguments = world.refused("run_a", "sandbox_run", json!({"image": "app", "args": ["x"]}));

    assert_eq!((error.kind, &error.details["field"]), (Kind::Invalid, &json!("cmd")));
    assert!(error.chain().contains("docker.io/library/app:latest"), "{}", error.chain());
    assert_eq!(arguments.details["field"], "args");
    assert!(nothing_is_live(&world));
}

#[test]
fn a_language_has_the_image_the_operator_gave_it() {
    let runtimes = [(Runtime::Python, PYTHON.to_owned())].into();
    let world = World::ruled_by(Policy { runtimes, ..Policy::default() });
    publish_two(&world);

    let python = world.ok("run_a", "sandbox_open", json!({"runtime": "python"}));
    let node = world.ok("run_a", "sandbox_open", json!({"runtime": "node"}));
    let named = world.ok("run_a", "sandbox_open", json!({"runtime": "python", "image": "host"}));

    assert_eq!(python["image"], PYTHON);
    assert_eq!((&node["image"], &named["image"]), (&json!("host"), &json!("host")));
}

#[test]
fn program_text_starts_beside_itself_unless_the_caller_says_where() {
    let mut silent = ExecRequest::default();
    let mut told = ExecRequest { cwd: Some("/srv".to_owned()), ..ExecRequest::default() };

    let script = silent.run_text(Runtime::Python, argv(&["x"]));
    told.run_text(Runtime::Bash, Vec::new());

    assert_eq!(script, "main.py");
    assert_eq!((silent.cwd.as_deref(), told.cwd.as_deref()), (Some("/workspace"), Some("/srv")));
    assert_eq!(silent.argv, argv(&["python3", "/workspace/main.py", "x"]));
    assert_eq!(told.argv, argv(&["bash", "/workspace/main.sh"]));
}

#[test]
fn an_image_without_the_interpreter_is_named() {
    let world = World::new();
    publish(&world, "app", Config { workdir: Some("/srv".to_owned()), ..Config::default() });

    let missing = world.refused("run_a", "sandbox_run", json!({"image": "app", "code": "1"}));

    assert_eq!(missing.details["exit_code"], 127);
    let hint = missing.hint.expect("a hint");
    assert_eq!(hint, "the image `docker.io/library/app:latest` has no `python3` in its PATH");
}

#[test]
fn a_missing_program_says_which_image_lacks_it() {
    let world = World::new();
    publish(&world, "scratch", Config::default());
    let opened = world.ok("run_a", "sandbox_open", json!({"image": "scratch"}));
    let hint = |id: &Value, cmd: &str| {
        let error = world.refused("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": [cmd]}));
        assert_eq!(error.details["exit_code"], 127);
        error.hint.expect("a hint")
    };

    let name = hint(&opened["sandbox_id"], "zsh");
    let path = hint(&opened["sandbox_id"], "/bin/app");
    let host = hint(&json!(world.open("run_a")), "zsh");

    assert_eq!(name, "the image `docker.io/library/scratch:latest` has no `zsh` in its PATH");
    assert!(path.contains("`/bin/app`") && path.contains("interpreter"), "{path}");
    assert_eq!(host, "install `zsh` on this machine, or use an image that has it");
}

#[test]
fn what_is_prepared_needs_no_second_transfer() {
    let world = World::new();
    publish_two(&world);
    let input = serde_json::from_value(json!({"image": "python:3.12"})).expect("a spec");
    let spec = Spec::resolve(input, world.engine.policy()).expect("valid");

    world.engine.lifecycle().prepare(&spec, &coracle_core::image::Silent).expect("prepared");
    world.ok("run_a", "sandbox_open", json!({"image": "python:3.12"}));

    assert_eq!(world.backend.image_shelf().transfers(), 2);
    assert_eq!(world.backend.creates(), 1);
}

#[test]
fn what_the_settings_name_is_brought_beforehand_and_one_that_is_missing_stops_nothing() {
    let prepull = vec!["docker.io/library/nothing:latest".to_owned(), PYTHON.to_owned()];
    let world = World::ruled_by(Policy { prepull, ..Policy::default() });
    publish_two(&world);

    let brought = world.ok("run_a", "image_prepull", json!({}));

    assert_eq!(brought["images"][0]["reference"], PYTHON);
    assert_eq!(brought["failed"][0]["kind"], "image_not_found");
    assert_eq!(world.ok("run_a", "image_list", json!({}))["images"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_is_brought_beforehand_has_to_be_allowed() {
    let images = Allowed::only(vec!["host".to_owned()]).expect("a pattern");
    let world = World::ruled_by(Policy { prepull: vec![PYTHON.to_owned()], images, ..Policy::default() });
    publish_two(&world);

    let brought = world.ok("run_a", "image_prepull", json!({}));

    assert_eq!(brought["failed"][0]["kind"], "image_not_allowed");
    assert_eq!(world.backend.image_shelf().transfers(), 0);
}

#[test]
fn an_unknown_language_is_refused_with_those_there_are() {
    let world = World::new();

    let error = world.refused("run_a", "sandbox_open", json!({"language": "pyton"}));

    assert_eq!((error.kind, &error.details["field"]), (Kind::Invalid, &json!("language")));
    assert!(error.chain().contains("did you mean python?") && error.chain().contains("dotnet"), "{error}");
}
