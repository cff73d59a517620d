//! Dependencies are installed from packages that a filler has fetched, once for all that have the same lockfile.

use coracle_core::install::{Ecosystem, Project, Report, Rules, Status};
use coracle_core::store::Which;
use coracle_core::{Policy, SandboxId, Store};
use coracle_engine::Call;
use serde_json::json;

use crate::world::{World, caller};

const RUN: &str = "run-1";

fn rules() -> Rules {
    Rules {
        networks: [(Ecosystem::Npm, "allow=registry.test".parse().expect("a network"))].into(),
        ..Rules::default()
    }
}

fn world() -> World {
    World::ruled_by(Policy { install: rules(), ..Policy::default() })
}

fn project(repo: &str) -> Project {
    Project { tenant: None, repo: repo.to_owned() }
}

/// Opens a sandbox with a repository that has a lockfile.
fn open(world: &World, files: &[(&str, &str)]) -> SandboxId {
    let sandbox = world.open(RUN);
    for (path, text) in files {
        world.ok(
            RUN,
            "sandbox_fs_write",
            json!({ "sandbox_id": sandbox, "path": format!("/workspace/{path}"), "contents": text }),
        );
    }
    sandbox
}

const NPM: &[(&str, &str)] = &[("package.json", "{}"), ("package-lock.json", "{}")];

fn install(world: &World, sandbox: &SandboxId) -> Report {
    world
        .engine
        .packages()
        .install(&Call::by(caller(RUN)), sandbox, &project("repo_a"))
        .expect("nothing cancels it")
}

#[test]
fn the_first_sandbox_fetches_and_the_second_installs_from_what_is_kept() {
    let world = world();

    let first = install(&world, &open(&world, NPM));
    let sandboxes = world.store.newest(None, Which::All, 100).expect("lists").len();
    let second = install(&world, &open(&world, NPM));

    assert_eq!((first.status, first.ecosystem), (Status::Done, Some(Ecosystem::Npm)), "{first:?}");
    assert_eq!(first, second);
    assert_eq!(world.store.packages().contents().len(), 1);
    assert_eq!(sandboxes, 2, "the first and its filler");
    assert_eq!(world.store.newest(None, Which::All, 100).expect("lists").len(), 3);
    assert_eq!(world.store.newest(None, Which::Live, 100).expect("lists").len(), 2, "no filler stays");
}

#[test]
fn a_filler_gets_the_lockfile_and_the_manifests_alone_and_nothing_of_the_callers() {
    let world = world();
    let reply = world.ok(RUN, "sandbox_open", json!({ "env": { "TOKEN": "hush" }, "labels": { "a": "b" } }));
    let sandbox: SandboxId = reply["sandbox_id"].as_str().expect("an id").parse().expect("an id");
    for (path, text) in
        NPM.iter().chain(&[(".npmrc", "//registry.test/:_authToken=hush"), ("index.js", "hush")])
    {
        let path = format!("/workspace/{path}");
        world.ok(RUN, "sandbox_fs_write", json!({ "sandbox_id": sandbox, "path": path, "contents": text }));
    }

    assert_eq!(install(&world, &sandbox).status, Status::Done);

    let records = world.store.newest(None, Which::All, 100).expect("lists");
    let filler = records.iter().find(|record| record.id != sandbox).expect("there was a filler");
    assert_eq!(filler.spec.network.to_string(), "allow=registry.test");
    assert!(
        filler.spec.env.is_empty() && filler.spec.mounts.is_empty() && !filler.spec.labels.contains_key("a")
    );
    // The fake's archive names what it was made from.
    assert_eq!(
        world.store.packages().contents(),
        [b"/workspace/package-lock.json\n/workspace/package.json\n"]
    );
}

#[test]
fn without_a_lockfile_or_a_network_it_says_so_and_fails_nothing() {
    let world = world();

    let without = install(&world, &open(&world, &[("README", "")]));
    let refused = install(&world, &open(&world, &[("Cargo.lock", "version = 4\n")]));

    assert_eq!((without.status, without.lockfile_sha256.as_ref()), (Status::Skipped, None));
    assert!(!without.fails(), "there is nothing to install");
    assert_eq!((refused.status, refused.exec_id.as_ref()), (Status::Failed, None));
    assert!(refused.hint.as_ref().is_some_and(|hint| hint.contains("install.network.cargo")), "{refused:?}");
    assert_eq!(world.store.newest(None, Which::All, 100).expect("lists").len(), 2, "no filler was made");
}

#[test]
fn other_lockfiles_are_named_and_other_manifests_are_another_entry() {
    let world = world();

    let both = install(&world, &open(&world, &[NPM, &[("uv.lock", "")]].concat()));
    install(&world, &open(&world, &[("package.json", "{\"name\": \"b\"}"), NPM[1]]));

    assert!(both.reason.as_ref().is_some_and(|reason| reason.contains("`uv.lock`")), "{both:?}");
    assert_eq!(world.store.packages().contents().len(), 2);
}

#[test]
fn many_at_once_wait_for_one_filler() {
    let world = world();
    let sandboxes: Vec<_> = (0..6).map(|_| open(&world, NPM)).collect();

    let reports: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            sandboxes.iter().map(|sandbox| scope.spawn(|| install(&world, sandbox))).collect();
        threads.into_iter().map(|thread| thread.join().expect("none panics")).collect()
    });

    assert!(reports.iter().all(|report| report.status == Status::Done), "{reports:?}");
    assert_eq!(world.store.newest(None, Which::All, 100).expect("lists").len(), 7, "one filler for six");
}

#[test]
fn packages_that_take_too_much_are_not_kept() {
    let rules = Rules { entry_max: 5, ..rules() };
    let world = World::ruled_by(Policy { install: rules, ..Policy::default() });

    let report = install(&world, &open(&world, NPM));

    assert_eq!(report.status, Status::Failed);
    assert!(report.reason.as_ref().is_some_and(|reason| reason.contains("more than")), "{report:?}");
    assert_eq!(world.store.packages().contents(), Vec::<Vec<u8>>::new());
}

#[test]
fn repositories_do_not_share_packages() {
    let world = world();
    let (one, other) = (open(&world, NPM), open(&world, NPM));
    let call = Call::by(caller(RUN));

    world.engine.packages().install(&call, &one, &project("repo_a")).expect("installs");
    world.engine.packages().install(&call, &other, &project("repo_b")).expect("installs");

    assert_eq!(world.store.packages().contents().len(), 2);
}

#[test]
fn open_installs_once_and_tells_it_again() {
    let world = world();
    let refused = world.refused(RUN, "sandbox_open", json!({ "install": "auto" }));
    assert_eq!(refused.details["field"], "install", "{refused:?}");

    let input = json!({
        "session_key": "a",
        "install": "auto",
        "mounts": [{ "source": "code", "target": "/workspace" }],
    });
    let first = world.ok(RUN, "sandbox_open", input.clone());
    let again = world.ok(RUN, "sandbox_open", input);

    assert_eq!(first["install"]["status"], "skipped", "an empty volume has no lockfile: {first:#}");
    assert_eq!(first["install"], again["install"]);
    assert_eq!((&first["created"], &again["created"]), (&json!(true), &json!(false)));
}
