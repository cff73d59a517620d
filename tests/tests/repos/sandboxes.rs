//! Sandboxes that work on a repository: opened with its files on a branch of their own, in any image and without a network.

use coracle_images::testing::{Image, Layer};
use coracle_tests::engines::test_backend::TestBackend;
use coracle_tests::{Finished, Git, Home, count, requires};
use serde_json::{Value, json};

use crate::site::{REPO, Site, helper_of};

const ROUNDS: (usize, usize) = (1, 20);

/// A home with a repository that has a commit on `main`, and the git of a person.
fn site() -> Site {
    pushed(Site::by_helper(Home::new()))
}

fn pushed(site: Site) -> Site {
    site.git.start("work");
    site.git.commit("work", "d/deep", "second\n");
    site.git.ok("work", &["push", "-q", &site.url, "main"]);
    site
}

fn branches(git: &Git, url: &str) -> Vec<(String, String)> {
    let listed = git.ok(".", &["ls-remote", url, "refs/heads/*"]);
    let split = |line: &str| {
        let (id, name) = line.split_once('\t').expect("an id and a name");
        (name.trim_start_matches("refs/heads/").to_owned(), id.to_owned())
    };
    listed.lines().map(split).collect()
}

fn open(home: &Home, more: &[&str]) -> Finished {
    let words = ["open", "--repo", REPO, "--base", "main", "--run", "run_a"];
    home.call(words.into_iter().chain(more.iter().copied())).succeed()
}

fn show(home: &Home, sandbox: &str) -> Value {
    home.call(["show", sandbox, "--json"]).succeed().json()
}

fn read(home: &Home, sandbox: &str, path: &str) -> String {
    home.call(["fs", "read", sandbox, path, "--run", "run_a"]).succeed().text().to_owned()
}

#[test]
fn a_sandbox_opens_with_a_repository_on_a_branch_of_its_own() {
    requires!(native);
    let Site { git, url, home, .. } = site();
    let tip = git.tip("work");

    let sandbox = open(&home, &[]).text().trim().to_owned();

    let inside = |words: &[&str]| {
        let words =
            ["exec", sandbox.as_str(), "--run", "run_a", "--"].into_iter().chain(words.iter().copied());
        home.call(words).succeed().text().trim().to_owned()
    };
    assert_eq!(inside(&["cat", "d/deep"]), "second");
    assert_eq!(
        inside(&["git", "status", "--porcelain=v2", "--branch"]),
        format!("# branch.oid {tip}\n# branch.head coracle/run-a")
    );
    assert_eq!(inside(&["git", "log", "--format=%s"]), "d/deep\nfile");
    assert_eq!(inside(&["git", "config", "user.email"]), "coracle@localhost");
    assert_eq!(inside(&["git", "commit", "-q", "--allow-empty", "-m", "work"]), "");
    let place = &show(&home, &sandbox)["repo"];
    assert_eq!((&place["branch"], &place["base_branch"]), (&json!("coracle/run-a"), &json!("main")));
    assert_eq!(place["base_sha"], tip.as_str());
    assert!(branches(&git, &url).contains(&("coracle/run-a".to_owned(), tip)));
}

#[test]
fn two_runs_on_one_repository_at_the_same_time_do_not_interfere() {
    requires!(native);
    let Site { git, url, home, .. } = site();
    let start = |run: &str| {
        let words = ["open", "--repo", REPO, "--run", run, "--json"];
        home.call(words).start()
    };

    let calls = [start("run_one"), start("run_two"), start("run_one")];

    let opened: Vec<Value> = calls.into_iter().map(|call| call.finish().expect_code(0).json()).collect();
    let mut made: Vec<&str> = opened.iter().filter_map(|one| one["repo"]["branch"].as_str()).collect();
    made.sort_unstable();
    made.dedup();
    assert_eq!(made.len(), 3, "{made:?}");
    let there: Vec<String> = branches(&git, &url).into_iter().map(|(name, _)| name).collect();
    assert!(made.iter().all(|name| there.contains(&(*name).to_owned())), "{made:?} {there:?}");
    for one in &opened {
        let (sandbox, run) =
            (one["sandbox_id"].as_str().expect("an id"), one["owner"].as_str().expect("a run"));
        let words =
            ["exec", sandbox, "--run", run, "--", "sh", "-c", "echo mine > file && git commit -qam mine"];
        home.call(words).succeed();
    }
}

#[test]
fn an_image_without_anything_gets_the_files_of_a_repository() {
    requires!(native);
    let Site { git, home, .. } = site();
    let image = Image::single(Layer::new().file("nothing", 0o644, b""));
    let path = git.path("image.tar");
    std::fs::write(&path, image.docker_save(&["localhost/scratch:1"])).expect("a file can be written");
    home.call(["image", "load", path.to_str().expect("text")]).succeed();

    let sandbox =
        open(&home, &["--image", "localhost/scratch:1", "--network", "none"]).text().trim().to_owned();

    assert_eq!(read(&home, &sandbox, "/workspace/d/deep"), "second\n");
    assert_eq!(read(&home, &sandbox, "/workspace/.git/HEAD"), "ref: refs/heads/coracle/run-a\n");
}

#[test]
fn an_ordinary_user_opens_a_repository() {
    requires!(native);
    let home = Home::ordinary();
    let git = Git::new();
    git.start("work");
    git.commit("work", "d/deep", "second\n");
    git.ok("work", &["bundle", "create", "-q", "../bundle", "main"]);
    let bundle = std::fs::read(git.path("bundle")).expect("git made it");
    home.call(["repo", "add", REPO, "-"]).stdin(bundle).succeed();

    let sandbox = open(&home, &[]).text().trim().to_owned();

    assert_eq!(read(&home, &sandbox, "d/deep"), "second\n");
}

#[test]
fn container_engines_open_a_repository_in_an_image_without_git() {
    requires!(docker);
    requires!(podman);
    for backend in [TestBackend::Docker, TestBackend::Podman] {
        let home = backend.home();
        home.call(["repo", "add", REPO]).succeed();
        let git = helper_of(&home);
        let Site { home, .. } = pushed(Site { git, url: format!("coracle://{REPO}"), daemon: None, home });
        let flags = backend.flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();

        let sandbox = open(&home, &flags).text().trim().to_owned();

        assert_eq!(read(&home, &sandbox, "/workspace/d/deep"), "second\n", "{backend:?}");
    }
}

#[test]
fn what_cannot_be_checked_out_is_refused_and_leaves_nothing() {
    requires!(native);
    let Site { git, url, home, .. } = site();
    let taken = branches(&git, &url);
    let refused = |words: &[&str], kind: &str| {
        let call = ["open", "--json"].into_iter().chain(words.iter().copied());
        let error = home.call(call).run().error();
        assert_eq!(error["kind"], kind, "{words:?}: {error}");
        error.to_string()
    };

    refused(&["--repo", "other"], "not_found");
    assert!(refused(&["--repo", REPO, "--base", "mian"], "not_found").contains("main"));
    refused(&["--repo", REPO, "--branch", "main"], "conflict");
    refused(&["--repo", REPO, "-v", "cache:/workspace/cache"], "invalid");

    assert_eq!(branches(&git, &url), taken);
    assert!(home.live().is_empty());
}

#[test]
fn killed_while_it_is_made_a_sandbox_leaves_no_branch_and_no_orphan() {
    requires!(native);
    for _ in 0..count(ROUNDS.0, ROUNDS.1) {
        let Site { git, url, home, .. } = site();
        let before = branches(&git, &url);
        for point in ["create.branch.before", "create.branch.after", "create.checkout.after"] {
            let words = ["open", "--repo", REPO, "--run", "run_a"];
            let killed = home.call(words).env("CORACLE_CRASH_AT", point).run();
            assert!(killed.was_killed(), "{point}");

            home.call(["gc"]).succeed();

            assert_eq!(branches(&git, &url), before, "{point}");
            home.expect_no_orphans();
        }
        let killed = home
            .call(["open", "--repo", REPO, "--run", "run_a"])
            .env("CORACLE_CRASH_AT", "create.branch.after");
        assert!(killed.run().was_killed());
        assert!(home.call(["gc"]).env("CORACLE_CRASH_AT", "fail.branch.after").run().was_killed());
        home.call(["gc"]).succeed();
        assert_eq!(branches(&git, &url), before, "the sweep was killed");

        // A branch that was acknowledged stays, whatever becomes of its sandbox.
        let sandbox = open(&home, &[]).text().trim().to_owned();
        home.call(["close", &sandbox, "--run", "run_a"]).succeed();
        home.call(["gc"]).succeed();
        assert_eq!(branches(&git, &url).len(), before.len() + 1);
    }
}

#[test]
fn a_branch_that_was_moved_meanwhile_is_not_taken_back() {
    requires!(native);
    let Site { git, url, home, .. } = site();
    let killed = home
        .call(["open", "--repo", REPO, "--run", "run_a"])
        .env("CORACLE_CRASH_AT", "create.checkout.after");
    assert!(killed.run().was_killed());
    let moved = git.commit("work", "file", "moved\n");
    git.ok("work", &["push", "-q", &url, "main:refs/heads/coracle/run-a"]);

    home.call(["gc"]).succeed();

    assert!(branches(&git, &url).contains(&("coracle/run-a".to_owned(), moved)));
}
