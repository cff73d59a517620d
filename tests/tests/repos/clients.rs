//! The git people have: it clones, fetches and pushes, in every version of its protocol.

use coracle_tests::requires;

use crate::site::{Site, WAYS};

#[test]
fn every_version_of_the_protocol_pushes_clones_and_fetches() {
    requires!(native);
    for way in WAYS {
        let Site { mut git, url, home: _home, daemon: _daemon } = Site::new(way);
        git.start("work");
        git.ok("work", &["push", "-q", &url, "main"]);
        for version in ["0", "1", "2"] {
            let (clone, protocol) = (format!("clone{version}"), format!("protocol.version={version}"));
            // The helper reads it from the environment, and otherwise speaks version 2.
            git.set("GIT_PROTOCOL", &format!("version={version}"));
            git.ok(".", &["-c", &protocol, "clone", "-q", &url, &clone]);
            assert_eq!(git.tip(&clone), git.tip("work"), "{way:?} {version}");

            let pushed = git.commit(&clone, "file", &format!("by version {version}\n"));
            git.ok(&clone, &["-c", &protocol, "push", "-q", "origin", "main"]);
            git.ok("work", &["-c", &protocol, "pull", "-q", "--ff-only", &url, "main"]);
            assert_eq!(git.tip("work"), pushed, "{way:?} {version}");
        }
        assert!(git.ok("work", &["fsck", "--strict"]).is_empty());
    }
}

#[test]
fn a_shallow_clone_has_what_it_asked_for_and_can_push() {
    requires!(native);
    for way in WAYS {
        let Site { git, url, home: _home, daemon: _daemon } = Site::new(way);
        git.start("work");
        for number in 0..5 {
            git.commit("work", "file", &format!("{number}\n"));
        }
        git.ok("work", &["push", "-q", &url, "main"]);

        git.ok(".", &["clone", "-q", "--depth", "2", &url, "shallow"]);
        assert_eq!(git.ok("shallow", &["rev-list", "--count", "HEAD"]), "2");
        let pushed = git.commit("shallow", "file", "from a shallow clone\n");
        git.ok("shallow", &["push", "-q", "origin", "main"]);

        assert!(git.ok(".", &["ls-remote", &url, "refs/heads/main"]).starts_with(&pushed));
        git.ok("shallow", &["fetch", "-q", "--unshallow"]);
        assert_eq!(git.ok("shallow", &["rev-list", "--count", "HEAD"]), "7");
    }
}

#[test]
fn a_push_is_refused_ref_by_ref() {
    requires!(native);
    for way in WAYS {
        let Site { git, url, home: _home, daemon: _daemon } = Site::new(way);
        git.start("work");
        let refs = [
            "main",
            "main:refs/coracle/mine",
            "main:refs/notes/x",
            "main:refs/tags/v1",
            "main:refs/heads/b/c",
        ];
        let words = [&["push", "--porcelain", &url], &refs[..]].concat();

        let output = git.run("work", &words);

        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let listed = git.ok(".", &["ls-remote", &url]);
        for (name, taken) in [
            ("heads/main", true),
            ("coracle/mine", false),
            ("notes/x", false),
            ("tags/v1", true),
            ("heads/b/c", true),
        ] {
            assert_eq!(listed.contains(&format!("refs/{name}")), taken, "{way:?} {name}: {said}");
        }
        assert!(said.contains("!\t") && said.contains("refs/coracle/mine"), "{said}");
        let atomic =
            git.run("work", &["push", "--atomic", &url, "main:refs/heads/new", "main:refs/coracle/x"]);
        assert!(!atomic.status.success());
        assert!(!git.ok(".", &["ls-remote", &url]).contains("heads/new"), "{way:?}: all of it or nothing");
    }
}

#[test]
fn branches_are_rewound_and_deleted_as_people_like() {
    requires!(native);
    for way in WAYS {
        let Site { git, url, home: _home, daemon: _daemon } = Site::new(way);
        git.start("work");
        git.commit("work", "file", "second\n");
        git.ok("work", &["push", "-q", &url, "main", "main:other"]);

        let refused = git.refused("work", &["push", &url, "HEAD~1:other"]);
        assert!(refused.contains("non-fast-forward"), "{refused}");
        git.ok("work", &["push", "-q", "--force", &url, "HEAD~1:other"]);
        assert!(
            git.ok(".", &["ls-remote", &url, "other"]).starts_with(&git.ok("work", &["rev-parse", "HEAD~1"]))
        );
        git.ok("work", &["push", "-q", &url, ":other"]);
        assert_eq!(git.ok(".", &["ls-remote", &url, "other"]), "");
    }
}

#[test]
fn a_first_branch_of_another_name_becomes_the_default() {
    requires!(native);
    for way in WAYS {
        let Site { git, url, home: _home, daemon: _daemon } = Site::new(way);
        git.start("work");
        git.ok("work", &["push", "-q", &url, "main:trunk"]);

        git.ok(".", &["clone", "-q", &url, "clone"]);

        assert_eq!(git.ok("clone", &["symbolic-ref", "HEAD"]), "refs/heads/trunk");
    }
}

/// Git compresses long requests.
#[test]
fn a_fetch_with_many_wants_comes_through() {
    requires!(native);
    for way in WAYS {
        let Site { git, url, home: _home, daemon: _daemon } = Site::new(way);
        git.start("work");
        for number in 0..60 {
            git.commit("work", "file", &format!("{number}\n"));
            git.ok("work", &["branch", &format!("b{number}")]);
        }
        git.ok("work", &["push", "-q", &url, "--all"]);

        git.ok(".", &["-c", "protocol.version=0", "clone", "-q", &url, "clone"]);

        assert_eq!(git.ok("clone", &["branch", "-r"]).lines().count(), 62);
    }
}

#[test]
fn of_two_pushes_to_one_branch_one_wins_and_the_other_is_told() {
    requires!(native);
    for way in WAYS {
        let Site { git, url, home: _home, daemon: _daemon } = Site::new(way);
        git.start("work");
        git.ok("work", &["push", "-q", &url, "main"]);
        for clone in ["a", "b"] {
            git.ok(".", &["clone", "-q", &url, clone]);
            git.commit(clone, "file", &format!("by {clone}\n"));
        }

        let won: Vec<bool> = std::thread::scope(|scope| {
            let pushes = ["a", "b"].map(|clone| {
                let git = &git;
                scope.spawn(move || git.run(clone, &["push", "-q", "origin", "main"]).status.success())
            });
            pushes.into_iter().map(|push| push.join().expect("no panic")).collect()
        });

        assert_eq!(won.iter().filter(|won| **won).count(), 1, "{way:?}");
        let winner = if won[0] { "a" } else { "b" };
        assert!(git.ok(".", &["ls-remote", &url, "main"]).starts_with(&git.tip(winner)));
    }
}
