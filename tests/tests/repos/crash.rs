//! `kill -9` while repositories are made, pushed to and removed: nothing half, nothing acknowledged is missing.

use coracle_tests::{Git, Home, count, requires};

use crate::site::{REPO, helper_of};

const ROUNDS: (usize, usize) = (1, 20);

fn rounds() -> usize {
    count(ROUNDS.0, ROUNDS.1)
}

fn kill_at(git: Git, point: &str) -> Git {
    git.env("CORACLE_CRASH_AT", point)
}

#[test]
fn killed_while_it_is_made_a_repository_is_there_or_not() {
    requires!(native);
    for round in 0..rounds() {
        for (point, there) in [("repo.add.draft.after", false), ("repo.add.rename.after", true)] {
            let home = Home::new();
            let killed = home.call(["repo", "add", REPO]).env("CORACLE_CRASH_AT", point).run();
            assert_ne!(killed.code(), Some(0), "{point} {round}");

            let listed = home.call(["repo", "list", "--json"]).succeed().json();
            assert_eq!(listed.as_array().map(Vec::len), Some(usize::from(there)), "{point} {round}");
            home.call(["gc"]).succeed();
            home.call(["doctor", "--orphans"]).succeed();
            let again = home.call(["repo", "add", REPO]).run();
            assert_eq!(again.code() == Some(0), !there, "{point} {round}");
        }
    }
}

#[test]
fn killed_while_it_is_removed_a_repository_is_gone() {
    requires!(native);
    for round in 0..rounds() {
        let home = Home::new();
        home.call(["repo", "add", REPO]).succeed();
        let removal = home.call(["repo", "remove", REPO]).env("CORACLE_CRASH_AT", "repo.remove.rename.after");
        assert_ne!(removal.run().code(), Some(0), "{round}");

        home.call(["repo", "add", REPO]).succeed();
        home.call(["gc"]).succeed();
        home.call(["doctor", "--orphans"]).succeed();
        let kept = std::fs::read_dir(home.path().join("repos")).expect("a directory").count();
        assert_eq!(kept, 2, "the new one and the lock: {round}");
    }
}

#[test]
fn killed_during_a_push_a_ref_is_whole_and_can_be_pushed_again() {
    requires!(native);
    for round in 0..rounds() {
        for point in ["repo.receive.git.after", "repo.receive.sync.after"] {
            let home = Home::new();
            home.call(["repo", "add", REPO]).succeed();
            let (git, url) = (helper_of(&home), format!("coracle://{REPO}"));
            git.start("work");
            git.ok("work", &["push", "-q", &url, "main"]);
            let first = git.tip("work");
            let second = git.commit("work", "file", "second\n");

            let git = kill_at(git, point);
            let cut = git.run("work", &["push", "-q", &url, "main", "main:other"]);
            assert!(!cut.status.success(), "{point} {round}: it was not acknowledged");

            let git = kill_at(git, "none");
            let listed = git.ok(".", &["ls-remote", &url]);
            let main = listed.lines().find(|line| line.ends_with("refs/heads/main")).expect("main is there");
            assert!(main.starts_with(&first) || main.starts_with(&second), "{point} {round}: {listed}");
            git.ok("work", &["push", "-q", &url, "main", "main:other"]);
            git.ok(".", &["clone", "-q", &url, "clone"]);
            assert_eq!(git.tip("clone"), second, "{point} {round}");
            home.call(["gc"]).succeed();
            home.call(["doctor", "--orphans"]).succeed();
        }
    }
}

/// What a git leaves that was killed itself: locks of refs, and objects that were not taken in.
#[test]
fn locks_and_objects_of_a_git_that_was_killed_are_in_nobodys_way() {
    requires!(native);
    let home = Home::new();
    home.call(["repo", "add", REPO]).succeed();
    let (git, url) = (helper_of(&home), format!("coracle://{REPO}"));
    git.start("work");
    git.ok("work", &["push", "-q", &url, "main"]);
    let shown = home.call(["repo", "show", REPO, "--json"]).succeed().json();
    let bare = home.path().join("repos").join(shown["repo_id"].as_str().expect("an id")).join("git");
    std::fs::write(bare.join("refs/heads/main.lock"), "").expect("written");
    std::fs::write(bare.join("packed-refs.lock"), "").expect("written");
    std::fs::create_dir_all(bare.join("objects/tmp_objdir-incoming-x/pack")).expect("made");

    git.commit("work", "file", "second\n");
    git.ok("work", &["push", "-q", &url, "main"]);
    git.ok("work", &["push", "-q", &url, "main:other"]);
    git.ok("work", &["push", "-q", &url, ":other"]);

    assert!(!bare.join("objects/tmp_objdir-incoming-x").exists());
}
