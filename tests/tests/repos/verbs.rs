//! `coracle repo` as a person types it.

use coracle_tests::{Home, requires};
use serde_json::json;

use crate::site::{Site, Way};

#[test]
fn repositories_are_made_listed_shown_and_removed() {
    requires!(native);
    let home = Home::new();
    let id = home.call(["repo", "add", "one"]).succeed().text().trim().to_owned();
    assert!(id.starts_with("repo_"), "{id}");
    home.call(["repo", "add", "two", "--json"]).succeed();

    let listed = home.call(["repo", "list", "--json"]).succeed().json();
    let names: Vec<_> = listed.as_array().expect("a list").iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, [json!("one"), json!("two")]);
    let shown = home.call(["repo", "show", "one", "--json"]).succeed().json();
    assert_eq!((&shown["repo_id"], &shown["branches"]), (&json!(id), &json!(0)));
    assert_eq!(shown["default_branch"], json!("main"));

    home.call(["repo", "remove", &id]).succeed();
    let gone = home.call(["repo", "show", "one", "--json"]).run();
    assert_eq!(gone.json()["error"]["kind"], "not_found");
    home.expect_no_orphans();
}

#[test]
fn bad_names_and_second_ones_are_refused() {
    requires!(native);
    let home = Home::new();
    home.call(["repo", "add", "one"]).succeed();
    let kind = |name: &str| {
        let input = json!({ "name": name });
        home.operation("repo_add", &input).run().error_kind()
    };

    assert_eq!(kind("one"), "conflict");
    for bad in ["", "-x", "../x", "a/b", "a.git", "a b", "repo_00000000000000000000000000"] {
        assert_eq!(kind(bad), "invalid", "{bad}");
    }
}

#[test]
fn without_git_there_are_no_repositories_and_doctor_says_so() {
    requires!(native);
    let none = tempfile::tempdir().expect("a directory");
    // The harness starts calls by this.
    std::os::unix::fs::symlink("/usr/bin/prlimit", none.path().join("prlimit")).expect("a link can be made");
    let path = none.path().to_str().expect("a path of text");
    let home = Home::new();
    home.call(["repo", "add", "one"]).succeed();

    let shown = home.call(["repo", "show", "one", "--json"]).env("PATH", path).run();
    let told = home.call(["doctor", "--json"]).env("PATH", path).run().json();

    assert_eq!(shown.json()["error"]["kind"], "not_available");
    assert_eq!(told["repos"]["available"], false);
    assert_eq!(home.call(["doctor", "--json"]).run().json()["repos"]["available"], true);
}

#[test]
fn what_the_helper_cannot_find_it_says() {
    requires!(native);
    let Site { git, home: _home, .. } = Site::new(Way::Helper);

    let refused = git.refused(".", &["ls-remote", "coracle://nothing"]);

    assert!(refused.contains("there is no repository `nothing`"), "{refused}");
}
