//! Tokens and tenants: who may fetch, who may push, and who learns that a repository exists.

use coracle_tests::http::{Answer, Request};
use coracle_tests::{Daemon, Git, Home, requires};
use serde_json::json;

use crate::site::{REPO, Site, add, url};

#[test]
fn a_token_for_fetching_does_not_push_and_one_for_pushing_does_not_fetch() {
    requires!(native);
    let Site { git, url: all, home, daemon } = Site::over_http(Home::new(), &[]);
    let daemon = daemon.expect("a daemon");
    git.start("work");
    git.ok("work", &["push", "-q", &all, "main"]);
    let of = |scope| url(&daemon, &home.token("acme", &["--allow", scope]), REPO);

    git.ok(".", &["clone", "-q", &of("repo_fetch"), "clone"]);
    let refused = git.refused("work", &["push", &of("repo_fetch"), "main:new"]);
    assert!(refused.contains("403"), "{refused}");
    git.ok("work", &["push", "-q", &of("repo_push"), "main:new"]);
    let refused = git.refused(".", &["ls-remote", &of("repo_push")]);
    assert!(refused.contains("403"), "{refused}");
    let refused = git.refused(".", &["ls-remote", &of("sandbox_*")]);
    assert!(refused.contains("403"), "{refused}");
}

#[test]
fn foreign_and_unknown_repositories_answer_alike() {
    requires!(native);
    let home = Home::new();
    let (acme, other) = (home.token("acme", &[]), home.token("other", &[]));
    let daemon = Daemon::start(&home);
    add(&daemon, &home);
    let made = Request::get(&format!("/v1/repos/{REPO}")).token(&acme).send(&daemon.tcp()).expect(200).json();
    let id = made["repo_id"].as_str().expect("an id");
    let never = "repo_00000000000000000000000000";
    let paths = |repo: &str| {
        [
            format!("/v1/repos/{repo}"),
            format!("/git/{repo}.git/info/refs?service=git-upload-pack"),
            format!("/git/{repo}.git/info/refs?service=git-receive-pack"),
        ]
    };

    let pairs = [(REPO, "unknown"), (id, never)];
    for (there, nowhere) in pairs {
        for (foreign, unknown) in paths(there).into_iter().zip(paths(nowhere)) {
            let answer = |path: &str| Request::get(path).token(&other).send(&daemon.tcp());
            let (foreign, unknown) = (answer(&foreign), answer(&unknown));
            assert_eq!((foreign.status, unknown.status), (404, 404));
            let text = |answer: &Answer, name: &str| answer.json().to_string().replace(name, "NAME");
            assert_eq!(text(&foreign, there), text(&unknown, nowhere));
        }
    }
    let listed = Request::get("/v1/repos").token(&other).send(&daemon.tcp()).expect(200).json();
    assert_eq!(listed, json!({ "repos": [] }));
    let removed = Request::new("DELETE", &format!("/v1/repos/{REPO}")).token(&other).send(&daemon.tcp());
    assert_eq!(removed.status, 404);
    let same = Request::post("/v1/repos", &json!({ "name": REPO })).token(&other).send(&daemon.tcp());
    assert_eq!(same.status, 200, "each tenant has its own names");
}

#[test]
fn without_a_token_git_is_asked_for_a_password() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);

    let answer = Request::get("/git/x.git/info/refs?service=git-upload-pack").send(&daemon.tcp());
    assert_eq!(answer.status, 401);
    let asks = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("www-authenticate") && value.starts_with("Basic ")
    };
    assert!(answer.headers.iter().any(asks), "{answer}");
    // Nothing else takes a password.
    let token = home.token("acme", &[]);
    let basic = coracle_tests::http::basic("x", &token);
    let asked = |path: &str| Request::get(path).header("Authorization", &basic).send(&daemon.tcp()).status;
    assert_eq!(asked("/v1/repos"), 401);
    assert_eq!(asked("/git/x.git/info/refs?service=git-upload-pack"), 404);
    let wrong = Git::new().refused(".", &["ls-remote", &url(&daemon, "cor_wrong", "x")]);
    assert!(wrong.contains("Authentication failed") || wrong.contains("401"), "{wrong}");
}
