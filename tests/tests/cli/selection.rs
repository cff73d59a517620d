//! Which backend a sandbox is on, what a project has to say about that, and what is shown of both.

use coracle_tests::{Call, Home, SOON, requires};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Returns a home none of whose engines is there, whatever the machine has.
fn home() -> Home {
    Home::new()
        .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
        .env("CONTAINER_HOST", "unix:///nowhere/podman.sock")
}

/// Returns a repository with this block.
fn repository(block: &str) -> tempfile::TempDir {
    let repository = tempfile::tempdir().expect("a directory can be made");
    fs::create_dir_all(repository.path().join(".git")).expect("ours");
    fs::create_dir_all(repository.path().join("src/deep")).expect("ours");
    fs::create_dir_all(repository.path().join(".openagents")).expect("ours");
    let text = format!("{{\"projectId\": \"sample\",\n \"sandbox\": {block}}}");
    fs::write(repository.path().join(".openagents/project.json"), text).expect("ours");
    repository
}

fn within(call: Call, directory: &Path) -> Call {
    call.through(["sh".as_ref(), "-c".as_ref(), "cd \"$0\" && exec \"$@\"".as_ref(), directory.as_os_str()])
}

fn backend<'a>(listed: &'a Value, name: &str) -> &'a Value {
    let all = listed.as_array().expect("a list");
    all.iter().find(|backend| backend["name"] == name).unwrap_or_else(|| panic!("no `{name}` in {listed}"))
}

#[test]
fn every_backend_is_listed_with_what_it_can_do_or_why_it_cannot() {
    requires!(native);
    let home = home().env("CORACLE_FALLBACK", "nonsense");

    let listed = home.call(["backends", "--json"]).succeed().json();
    let shown = home.call(["backends"]).succeed();

    let native = backend(&listed, "native");
    assert_eq!(
        (&native["available"], &native["default"], &native["reason"]),
        (&json!(true), &json!(true), &json!(null))
    );
    assert_eq!(native["walls"], native["profile"]["walls"].as_array().expect("walls").len());
    for engine in ["docker", "podman"] {
        let engine = backend(&listed, engine);
        assert_eq!(engine["available"], false);
        assert!(engine["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{engine}");
        assert!(
            engine["endpoint"].as_str().is_some_and(|place| place.starts_with("unix:///nowhere/")),
            "{engine}"
        );
    }
    // Unknown names in the settings are shown, too.
    assert_eq!(backend(&listed, "nonsense")["available"], false);
    assert!(shown.text().contains("native (default)"), "{shown}");
}

#[test]
fn an_engine_that_never_answers_delays_no_call() {
    requires!(native);
    let directory = tempfile::tempdir().expect("a directory can be made");
    let socket = directory.path().join("docker.sock");
    // It takes connections, as far as the kernel goes, and says nothing.
    let _silent = UnixListener::bind(&socket).expect("ours");
    let home = home().env("DOCKER_HOST", format!("unix://{}", socket.display()));

    let listed = home.call(["backends", "--json"]).within(SOON).succeed();
    let examined = home.call(["doctor", "--json"]).within(SOON).succeed();

    for report in [listed.json(), examined.json()["backends"].clone()] {
        assert_eq!(backend(&report, "docker")["available"], false);
        assert_eq!(backend(&report, "native")["available"], true);
    }
}

#[test]
fn an_engine_that_is_down_is_an_error_with_a_hint_and_no_fallback() {
    requires!(native);
    let home = home();

    let refused = home.call(["run", "--backend", "docker", "--json", "--", "true"]).run().error();

    assert_eq!(refused["kind"], "not_available");
    let hint = refused["hint"].as_str().expect("a hint");
    assert!(hint.contains("--backend native"), "{hint}");
    assert!(home.live().is_empty());
    home.expect_no_orphans();
}

#[test]
fn a_fallback_that_was_written_down_is_taken_said_and_recorded() {
    requires!(native);
    let home = home();
    let flags = ["--backend", "docker", "--fallback", "podman,native"];

    let ran = home.call(["run", "--json"].into_iter().chain(flags).chain(["--", "echo", "here"])).succeed();
    let sandbox = home.open_with(&flags);
    let shown = home.call(["show", &sandbox, "--json"]).succeed().json();
    let for_people = home.call(["show", &sandbox]).succeed();

    for told in [ran.json(), shown] {
        assert_eq!(told["backend"], "native");
        let names: Vec<_> =
            told["refused"].as_array().expect("a list").iter().map(|one| &one["backend"]).collect();
        assert_eq!(names, ["docker", "podman"]);
    }
    assert_eq!(ran.stderr.matches("`docker` was not used").count(), 1, "{ran}");
    assert!(for_people.text().contains("refused"), "{for_people}");
}

#[test]
fn what_no_backend_enforces_is_refused_with_every_misfit() {
    requires!(native);
    let home = home();
    let flags = ["run", "--backend", "auto", "--require", "moat", "--json", "--", "true"];

    let refused = home.call(flags).run().error();

    assert_eq!(refused["kind"], "unsupported");
    let list = refused["details"]["refused"].as_array().expect("a list");
    assert_eq!((&list[0]["backend"], &list[0]["misfits"]), (&json!("native"), &json!(["moat"])));
    assert_eq!(list.len(), 3, "{refused}");
}

#[test]
fn a_project_decides_where_no_person_does() {
    requires!(native);
    let (home, project) =
        (home(), repository(r#"{"enabled": true, "memoryLimit": "256M", "cpuLimit": 0.5}"#));
    let deep = project.path().join("src/deep");

    let limits = |flags: &[&str]| {
        let call = home.call(["open", "--json"].iter().chain(flags));
        let id = within(call, &deep).succeed().json()["sandbox_id"].as_str().expect("an id").to_owned();
        home.call(["show", &id, "--json"]).succeed().json()["limits"].clone()
    };
    let (silent, flagged) = (limits(&[]), limits(&["--memory", "128m"]));
    let settings = within(home.call(["config", "--json"]), &deep).succeed().json();
    let elsewhere = home.call(["config", "--json"]).succeed().json();

    assert_eq!((&silent["memory_mb"], &silent["cpu_millicores"]), (&json!(256), &json!(500)));
    assert_eq!((&flagged["memory_mb"], &flagged["cpu_millicores"]), (&json!(128), &json!(500)));
    let source = &settings["limits.memory_mb"]["source"]["project"];
    assert!(source.as_str().is_some_and(|path| path.ends_with(".openagents/project.json")), "{settings}");
    assert_eq!(elsewhere["limits.memory_mb"]["source"], "default");
}

#[test]
fn a_project_chooses_a_backend_and_a_flag_overrules_it() {
    requires!(native);
    let home = home();
    for (wanted, told) in [("macos-container", "only macOS"), ("docker", "engine")] {
        let project = repository(&format!("{{\"enabled\": true, \"backend\": \"{wanted}\"}}"));

        let refused = within(home.call(["run", "--json", "--", "true"]), project.path()).run().error();
        let flags = ["run", "--backend", "native", "--", "echo", "overruled"];
        let overruled = within(home.call(flags), project.path()).succeed();

        assert_eq!(refused["kind"], "not_available", "{wanted}");
        assert!(refused["message"].as_str().is_some_and(|message| message.contains(told)), "{refused}");
        assert_eq!(overruled.text(), "overruled\n");
    }
}

#[test]
fn a_project_that_wants_no_sandbox_gets_one_and_is_told_once() {
    requires!(native);
    let (home, project) = (home(), repository(r#"{"enabled": false, "backend": "docker"}"#));

    let first = within(home.call(["run", "--", "echo", "inside"]), project.path()).succeed();
    let second = within(home.call(["run", "--", "echo", "inside"]), project.path()).succeed();

    assert_eq!((first.text(), second.text()), ("inside\n", "inside\n"));
    assert!(first.stderr.contains("asks for no sandbox"), "{first}");
    assert!(!second.stderr.contains("asks for no sandbox"), "{second}");
}

#[test]
fn a_broken_project_stops_what_it_has_a_say_in_and_nothing_else() {
    requires!(native);
    let (home, project) = (home(), repository("{\"image\": }"));
    let sandbox = home.open();

    let refused = within(home.call(["run", "--json", "--", "true"]), project.path()).run().error();
    let ignored = home.call(["run", "--", "echo", "ran"]).env("CORACLE_PROJECT", "ignore");
    let ignored = within(ignored, project.path()).succeed();
    within(home.call(["close", &sandbox]), project.path()).succeed();

    assert_eq!(refused["kind"], "invalid");
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains(".openagents/project.json") && message.contains("line 2"), "{message}");
    assert_eq!(ignored.text(), "ran\n");
}
