//! What is not installed, and how that is said.

use coracle_tests::{Home, requires};
use serde_json::json;

use crate::site::{PATIENCE, Site};

/// Opens a directory with one file in it and required dependencies; returns the error.
fn refused(home: &Home, file: &str) -> serde_json::Value {
    let project = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(project.path().join(file), "{}").expect("it can be written");
    let workspace = format!("{}:overlay", project.path().display());
    let words = ["open", "--json", "--workspace", &workspace, "--install", "required"];
    home.call(words).within(PATIENCE).run().error()
}

#[test]
fn what_is_required_and_cannot_be_fetched_fails_and_leaves_no_sandbox() {
    requires!(programs);
    let home = Home::new();

    let error = refused(&home, "go.sum");

    assert_eq!(error["kind"], "execution_failed", "{error:#}");
    assert_eq!(error["details"]["install"]["status"], "failed", "{error:#}");
    let hint = error["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("install.network.go"), "{error:#}");
    assert_eq!(home.live(), Vec::<serde_json::Value>::new());
    home.expect_nothing_left();
}

#[test]
fn a_tool_the_image_lacks_is_skipped_and_fails_only_what_requires_it() {
    requires!(programs);
    let site = Site::new(&[], "[install.network]\nuv = \"open\"\n");
    let project = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(project.path().join("uv.lock"), "").expect("it can be written");

    let (_, installed) = site.open(project.path(), &[]);
    let error = refused(&site.home, "uv.lock");

    assert_eq!(
        (&installed["status"], &installed["reason"]),
        (&json!("skipped"), &json!("the image has no `uv`"))
    );
    assert_eq!(error["details"]["install"]["status"], "skipped", "{error:#}");
}

#[test]
fn without_a_lockfile_there_is_nothing_to_install() {
    requires!(programs);
    let site = Site::npm();
    let project = tempfile::tempdir().expect("a directory can be made");

    let (_, installed) = site.open(project.path(), &[]);

    assert_eq!(installed["status"], "skipped", "{installed:#}");
    assert_eq!(site.home.live().len(), 1);
}

#[test]
fn a_package_that_cannot_be_fetched_is_told_with_the_package_managers_words() {
    requires!(programs);
    let site = Site::npm();
    let project = site.project("npm/project");
    let lockfile = project.path().join("package-lock.json");
    let text = std::fs::read_to_string(&lockfile).expect("it is there");
    std::fs::write(&lockfile, text.replace("small-1.0.0.tgz", "gone-1.0.0.tgz")).expect("it can be written");

    let (_, installed) = site.open(project.path(), &[]);

    assert_eq!(
        (&installed["status"], &installed["exec_id"]),
        (&json!("failed"), &json!(null)),
        "{installed:#}"
    );
    assert!(
        installed["reason"].as_str().is_some_and(|reason| reason.contains("gone-1.0.0.tgz")),
        "{installed:#}"
    );
    assert_eq!(site.home.live().len(), 1, "the filler is gone");
}

#[test]
fn nothing_to_install_in_is_refused() {
    requires!(native);
    let home = Home::new();

    let error = home.call(["open", "--json", "--install", "auto"]).run().error();

    assert_eq!(
        (&error["kind"], &error["details"]["field"]),
        (&json!("invalid"), &json!("install")),
        "{error:#}"
    );
}
