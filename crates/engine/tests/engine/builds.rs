//! Building images: what is checked before a builder is asked, and what becomes of the image.

use coracle_core::image::Allowed;
use coracle_core::{Kind, Policy};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::World;

fn context(dockerfile: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(directory.path().join("Dockerfile"), dockerfile).expect("ours");
    directory
}

fn input(context: &TempDir) -> Value {
    json!({"context": context.path(), "tag": "app:1"})
}

fn with(context: &TempDir, field: &str, value: Value) -> Value {
    let mut input = input(context);
    input[field] = value;
    input
}

#[test]
fn a_built_image_is_listed_and_sandboxes_are_made_from_it() {
    let world = World::building(Policy::default());
    let context = context("FROM scratch\nCOPY a b");

    let built = world.ok("run_a", "image_build", input(&context));
    let opened = world.ok("run_a", "sandbox_open", json!({"image": "app:1"}));

    assert_eq!(built["reference"], "docker.io/library/app:1");
    assert_eq!(world.ok("run_a", "image_list", json!({}))["images"][0]["digest"], built["digest"]);
    assert_eq!(opened["image"], "docker.io/library/app:1");
}

#[test]
fn a_failing_step_leaves_no_image() {
    let world = World::building(Policy::default());
    let context = context("FROM scratch\nRUN false");

    let error = world.refused("run_a", "image_build", input(&context));

    assert_eq!((error.kind, &error.details["step"]), (Kind::ExecutionFailed, &json!(2)));
    assert_eq!(world.ok("run_a", "image_list", json!({}))["images"], json!([]));
}

#[test]
fn a_build_gets_no_name_the_operator_trusts_somebody_else_with() {
    let allowed = |patterns: &[&str], tag: &str| {
        let images = Allowed::only(patterns.iter().map(ToString::to_string).collect()).expect("patterns");
        let world = World::building(Policy { images, ..Policy::default() });
        let context = context("FROM scratch");
        world.call("run_a", "image_build", with(&context, "tag", json!(tag))).map_err(|error| error.kind)
    };

    let list = ["ghcr.io/owner/*", "localhost/built/*"];
    assert_eq!(allowed(&list, "ghcr.io/owner/app"), Err(Kind::ImageNotAllowed));
    assert_eq!(allowed(&list, "localhost/other"), Err(Kind::ImageNotAllowed));
    assert_eq!(allowed(&list, "app"), Err(Kind::ImageNotAllowed));
    assert!(allowed(&list, "localhost/built/app").is_ok());
    assert!(allowed(&["*"], "ghcr.io/owner/app").is_ok());
}

#[test]
fn what_is_no_recipe_reaches_no_builder() {
    let world = World::building(Policy::default());
    let context = context("FROM scratch");

    for (field, value) in [
        ("context", json!("relative")),
        ("tag", json!("APP")),
        ("tag", json!(format!("app@sha256:{}", "0".repeat(64)))),
        ("dockerfile", json!("../Dockerfile")),
        ("dockerfile", json!("/etc/passwd")),
        ("target", json!("a b")),
        ("build_args", json!({"A=B": "c"})),
        ("memory_mb", json!(1)),
        ("cpu_millicores", json!(1_000_000)),
        ("colour", json!("blue")),
    ] {
        let error = world.refused("run_a", "image_build", with(&context, field, value));

        assert_eq!((error.kind, &error.details["field"]), (Kind::Invalid, &json!(field)));
    }
}

#[test]
fn where_nothing_builds_the_hint_names_what_would() {
    let world = World::new();

    let error = world.refused("run_a", "image_build", input(&context("FROM scratch")));

    assert_eq!(error.kind, Kind::NotAvailable);
    let hint = error.hint.expect("a hint");
    assert!(hint.contains("Docker") && hint.contains("buildah"), "{hint}");
}
