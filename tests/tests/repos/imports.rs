//! `repo add` from a bundle and from a directory: everything comes, nothing of it is executed, and a crash leaves nothing.

use coracle_tests::{Git, Home, requires};

use crate::site::{REPO, helper_of};

/// A work tree with two branches, a tag and odd things beside.
fn tree(git: &Git) -> String {
    git.start("work");
    git.ok("work", &["branch", "old"]);
    let tip = git.commit("work", "file", "second\n");
    git.ok("work", &["tag", "v1"]);
    git.ok("work", &["update-ref", "refs/notes/x", "HEAD"]);
    tip
}

fn check(home: &Home, tip: &str) {
    let git = helper_of(home);
    git.ok(".", &["clone", "-q", &format!("coracle://{REPO}"), "clone"]);
    assert_eq!(git.tip("clone"), tip);
    let refs = git.ok(".", &["ls-remote", "--refs", &format!("coracle://{REPO}")]);
    let names: Vec<_> = refs.lines().filter_map(|line| line.split('\t').nth(1)).collect();
    assert_eq!(names, ["refs/heads/main", "refs/heads/old", "refs/tags/v1"]);
    assert!(git.ok("clone", &["fsck", "--strict"]).is_empty());
}

#[test]
fn a_bundle_comes_from_a_file_and_from_standard_input() {
    requires!(native);
    let git = Git::new();
    let tip = tree(&git);
    git.ok("work", &["bundle", "create", "-q", "../all.bundle", "--all", "HEAD"]);
    let file = git.path("all.bundle");

    let home = Home::new();
    home.call(["repo", "add", REPO, file.to_str().expect("a path of text")]).succeed();
    check(&home, &tip);
    home.call(["repo", "remove", REPO]).succeed();
    home.call(["repo", "add", REPO, "-"]).stdin(std::fs::read(&file).expect("read")).succeed();
    check(&home, &tip);
}

#[test]
fn a_bundle_that_is_cut_short_or_only_a_part_makes_nothing() {
    requires!(native);
    let git = Git::new();
    tree(&git);
    git.ok("work", &["bundle", "create", "-q", "../all.bundle", "--all"]);
    git.ok("work", &["bundle", "create", "-q", "../part.bundle", "main", "^old"]);
    let whole = std::fs::read(git.path("all.bundle")).expect("read");
    let part = std::fs::read(git.path("part.bundle")).expect("read");
    let home = Home::new();

    for bad in [&whole[..whole.len() - 30], &whole[..40], &part, b"# v2 git bundle\n"] {
        let refused = home.call(["repo", "add", REPO, "-", "--json"]).stdin(bad).run();
        assert_eq!(refused.json()["error"]["kind"], "invalid", "{}", refused.text());
    }
    assert_eq!(home.call(["repo", "list", "--json"]).succeed().json(), serde_json::json!([]));
    home.call(["doctor", "--orphans"]).succeed();
}

/// GH-02, GH-03: a person's repository may say anything; only a git in a sandbox reads it.
#[test]
fn a_directory_is_read_in_a_sandbox_and_nothing_it_says_is_executed_here() {
    requires!(native);
    let git = Git::new();
    let tip = tree(&git);
    let mark = git.path("executed");
    let trap = git.path("trap");
    std::fs::write(&trap, format!("#!/bin/sh\ntouch {}\n", mark.display())).expect("written");
    std::fs::set_permissions(&trap, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("changed");
    let trap = trap.to_str().expect("a path of text");
    for key in
        ["core.fsmonitor", "core.sshCommand", "core.alternateRefsCommand", "uploadpack.packObjectsHook"]
    {
        git.ok("work", &["config", key, trap]);
    }
    let home = Home::new();

    home.call(["repo", "add", REPO, git.path("work").to_str().expect("a path of text")]).succeed();

    check(&home, &tip);
    assert!(!mark.exists(), "something was executed");
    assert!(home.live().is_empty());
}

#[test]
fn what_leads_out_of_a_directory_leads_nowhere() {
    requires!(native);
    let git = Git::new();
    tree(&git);
    // All objects are elsewhere; in the sandbox there is no elsewhere.
    git.ok(".", &["clone", "-q", "--shared", "work", "shared"]);
    let home = Home::new();

    let refused =
        home.call(["repo", "add", REPO, git.path("shared").to_str().expect("text"), "--json"]).run();

    assert_ne!(refused.code(), Some(0));
    assert_eq!(home.call(["repo", "list", "--json"]).succeed().json(), serde_json::json!([]));
    home.call(["doctor", "--orphans"]).succeed();
}

#[test]
fn urls_of_ssh_are_not_supported_and_others_are_invalid() {
    requires!(native);
    let home = Home::new();
    let kind = |url: &str| {
        let refused = home.call(["repo", "add", REPO, url, "--json"]).run();
        refused.json()["error"]["kind"].as_str().expect("a kind").to_owned()
    };

    assert_eq!(kind("ssh://git@host.test/x"), "unsupported");
    assert_eq!(kind("git@host.test:x/y.git"), "unsupported");
    assert_eq!(kind("file:///etc"), "invalid");
    assert_eq!(kind("ext::sh -c true"), "invalid");
    assert_eq!(kind("https://user:password@host.test/x"), "invalid");
}

#[test]
fn killed_during_an_import_nothing_is_left() {
    requires!(native);
    let git = Git::new();
    let tip = tree(&git);
    git.ok("work", &["bundle", "create", "-q", "../all.bundle", "--all", "HEAD"]);
    let file = git.path("all.bundle").to_str().expect("a path of text").to_owned();
    for _ in 0..coracle_tests::count(1, 20) {
        for point in ["repo.receive.git.after", "repo.add.fill.after"] {
            let home = Home::new();
            let killed = home.call(["repo", "add", REPO, &file]).env("CORACLE_CRASH_AT", point).run();
            assert_ne!(killed.code(), Some(0), "{point}");

            assert_eq!(home.call(["repo", "list", "--json"]).succeed().json(), serde_json::json!([]));
            home.call(["gc"]).succeed();
            home.call(["doctor", "--orphans"]).succeed();
            home.call(["repo", "add", REPO, &file]).succeed();
            check(&home, &tip);
        }
    }
}
