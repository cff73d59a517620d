//! The GH rows: what is pushed and what lies about never has our git execute, read or fetch anything.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use coracle_tests::{Git, Home, requires};

use crate::site::{REPO, Site, WAYS, Way, helper_of};

/// A script that leaves a mark where it was executed.
fn trap(directory: &Path, mark: &Path) -> String {
    let script = directory.join("trap");
    std::fs::write(&script, format!("#!/bin/sh\ntouch {}\n", mark.display())).expect("written");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("changed");
    script.to_str().expect("a path of text").to_owned()
}

/// Settings that have git execute a program, each in a file of a person's, of the machine's and in the environment.
fn settings(trap: &str) -> String {
    format!(
        "[core]\n\thooksPath = {hooks}\n\tfsmonitor = {trap}\n\tsshCommand = {trap}\n\tpager = {trap}\n\teditor = {trap}\n\t\
         gitProxy = {trap}\n\taskPass = {trap}\n\talternateRefsCommand = {trap}\n[uploadpack]\n\tpackObjectsHook = {trap}\n\
         [filter \"x\"]\n\tclean = {trap}\n\tsmudge = {trap}\n\tprocess = {trap}\n[diff]\n\texternal = {trap}\n\
         [credential]\n\thelper = {trap}\n[gpg]\n\tprogram = {trap}\n[receive]\n\tprocReceiveRefs = refs\n\
         [uploadpack]\n\tallowAnySHA1InWant = true\n[merge \"x\"]\n\tdriver = {trap}\n",
        hooks = Path::new(trap).parent().expect("a directory").join("hooks").display(),
    )
}

/// Every hook of git's, as the trap.
fn hooks(directory: &Path, trap: &str) {
    std::fs::create_dir_all(directory).expect("made");
    for hook in [
        "pre-receive",
        "update",
        "post-receive",
        "post-update",
        "reference-transaction",
        "proc-receive",
        "pre-auto-gc",
        "push-to-checkout",
        "post-index-change",
    ] {
        std::fs::copy(trap, directory.join(hook)).expect("copied");
    }
}

/// GH-01, GH-02, GH-11: a home directory, an environment and a system full of settings that execute.
#[test]
fn nothing_in_settings_hooks_or_the_environment_is_executed() {
    requires!(native);
    for way in WAYS {
        let place = tempfile::tempdir().expect("a directory");
        let mark = place.path().join("executed");
        let trap = trap(place.path(), &mark);
        hooks(&place.path().join("hooks"), &trap);
        std::fs::write(place.path().join(".gitconfig"), settings(&trap)).expect("written");
        let config = place.path().join(".gitconfig").to_str().expect("a path of text").to_owned();
        let home = ["HOME", "XDG_CONFIG_HOME"]
            .iter()
            .fold(Home::new(), |home, name| home.env(name, place.path().to_str().expect("a path of text")))
            .env("GIT_CONFIG_GLOBAL", &config)
            .env("GIT_CONFIG_SYSTEM", &config)
            .env("GIT_CONFIG_PARAMETERS", format!("'core.hooksPath'='{}/hooks'", place.path().display()))
            .env("GIT_TEMPLATE_DIR", place.path().to_str().expect("a path of text"))
            .env("GIT_EXTERNAL_DIFF", &trap)
            .env("GIT_ASKPASS", &trap)
            .env("GIT_SSH_COMMAND", &trap);
        let site = match way {
            Way::Http => Site::over_http(home, &[]),
            Way::Helper => Site::by_helper(home),
        };
        // By the helper the daemon's environment is the client's, which would spring its own traps.
        let Site { git, url, home, daemon: _daemon } = site;
        let git = match way {
            Way::Http => git,
            Way::Helper => git.env("XDG_CONFIG_HOME", place.path().to_str().expect("a path of text")),
        };
        git.start("work");
        git.commit("work", ".gitattributes", "* filter=x diff=x merge=x\n");
        git.commit("work", ".gitmodules", "[submodule \"s\"]\n\tpath = s\n\turl = ./s\n");
        git.commit("work", ".lfsconfig", "[lfs]\n\turl = http://127.0.0.1:1\n");
        let _ = std::fs::remove_file(&mark);

        git.ok("work", &["push", "-q", &url, "main", "main:other"]);
        git.ok("work", &["push", "-q", "--force", &url, "HEAD~1:other"]);
        git.ok("work", &["push", "-q", &url, ":other"]);
        git.ok(".", &["ls-remote", &url]);
        home.call(["repo", "list"]).succeed();
        home.call(["gc"]).succeed();

        assert!(!mark.exists(), "{way:?}: something was executed");
    }
}

/// The twin: the same traps spring on a git without our hardening.
#[test]
fn the_same_traps_spring_on_a_git_that_is_not_hardened() {
    requires!(native);
    let place = tempfile::tempdir().expect("a directory");
    let mark = place.path().join("executed");
    let trap = trap(place.path(), &mark);
    hooks(&place.path().join("hooks"), &trap);
    std::fs::write(place.path().join(".gitconfig"), settings(&trap)).expect("written");
    let git = Git::new();
    git.start("work");
    let config = place.path().join(".gitconfig").to_str().expect("a path of text").to_owned();
    git.ok(".", &["init", "-q", "--bare", "plain.git"]);
    let _ = std::fs::remove_file(&mark);

    let git = git.env("GIT_CONFIG_GLOBAL", config);
    let _ = git.run("work", &["push", "-q", "../plain.git", "main"]);

    assert!(mark.exists(), "the matrix is vacuous");
}

/// GH-03: what leads to another repository's objects cannot be pushed, because only objects and refs can.
#[test]
fn objects_of_another_repository_are_not_fetched_by_id() {
    requires!(native);
    for way in WAYS {
        let Site { git, url, home, daemon: _daemon } = Site::new(way);
        home.call(["repo", "add", "secret"]).succeed();
        let other = helper_of(&home);
        other.start("work");
        let secret = other.commit("work", "secret", "of another\n");
        other.ok("work", &["push", "-q", "coracle://secret", "main"]);
        git.start("work");
        git.commit("work", "objects/info/alternates", "../../secret/git/objects\n");
        git.ok("work", &["push", "-q", &url, "main"]);

        let refused = git.refused("work", &["fetch", &url, &secret]);

        assert!(refused.contains("not our ref") || refused.contains("couldn't find remote ref"), "{refused}");
        let wanted = git.refused("work", &["push", &url, &format!("{secret}:refs/heads/stolen")]);
        assert!(!wanted.is_empty());
        assert!(!git.ok(".", &["ls-remote", &url]).contains(&secret));
    }
}

/// GH-07: names git or a shell could take for something else.
#[test]
fn refs_with_odd_names_are_refused_one_by_one() {
    requires!(native);
    let Site { git, url, home: _home, daemon: _daemon } = Site::new(Way::Http);
    git.start("work");
    let tip = git.tip("work");

    for name in ["refs/heads/--upload-pack=x", "refs/heads/-x", "refs/heads/a\u{202e}b", "refs/other/x"] {
        // Clients refuse some of these names themselves, so the refspec writes them from an id.
        let refused = git.refused("work", &["push", &url, &format!("{tip}:{name}")]);
        assert!(!refused.is_empty(), "{name}");
    }
    assert_eq!(git.ok(".", &["ls-remote", &url]), "");
}

/// GH-06: a push of more than may be is refused, and leaves nothing.
#[test]
fn a_push_that_is_too_large_is_refused_and_leaves_nothing() {
    requires!(native);
    let home = Home::new();
    std::fs::write(home.path().join("config.toml"), "[repos]\npush_max = \"1m\"\n").expect("written");
    let Site { git, url, home, daemon: _daemon } = Site::over_http(home, &[]);
    git.start("work");
    // What does not compress below half a byte for each digit.
    let mut noise = vec![0; 1_500_000];
    getrandom::fill(&mut noise).expect("random bytes");
    let digits: String = noise.iter().map(|byte| format!("{byte:02x}")).collect();
    git.commit("work", "noise", &digits);

    let refused = git.refused("work", &["push", &url, "main"]);

    assert!(refused.contains("exceeds maximum") || refused.contains("unpack"), "{refused}");
    assert_eq!(git.ok(".", &["ls-remote", &url]), "");
    let shown = home.call(["repo", "list", "--json"]).succeed().json();
    let id = shown[0]["repo_id"].as_str().expect("an id").to_owned();
    let objects = home.path().join("repos").join(id).join("git/objects");
    let left: Vec<_> =
        std::fs::read_dir(objects).expect("objects").flatten().map(|one| one.file_name()).collect();
    assert_eq!(left.len(), 2, "only `info` and `pack`: {left:?}");
}

/// GH-15: replacements and grafts of a client's repository change nothing of what others get.
#[test]
fn replacements_are_not_taken_in_and_not_heeded() {
    requires!(native);
    let Site { git, url, home: _home, daemon: _daemon } = Site::new(Way::Http);
    git.start("work");
    let first = git.tip("work");
    let second = git.commit("work", "file", "second\n");
    git.ok("work", &["push", "-q", &url, "main"]);
    git.ok("work", &["replace", &second, &first]);

    let refused = git.refused("work", &["push", &url, "refs/replace/*:refs/replace/*"]);
    assert!(refused.contains("refs/replace"), "{refused}");
    git.ok(".", &["clone", "-q", &url, "clone"]);
    assert_eq!(git.ok("clone", &["rev-list", "--count", "HEAD"]), "2");
}

/// A directory that git would refuse in a tree; a pack with it never counts.
#[test]
fn trees_no_checkout_may_have_are_refused() {
    requires!(native);
    let Site { git, url, home, daemon: _daemon } = Site::new(Way::Helper);
    git.start("work");
    let blob = git.ok("work", &["hash-object", "-w", "file"]);
    let tree = format!("printf '100644 blob {blob}\\t.git\\n' | git mktree");
    let output = std::process::Command::new("sh")
        .args(["-c", &tree])
        .current_dir(git.path("work"))
        .output()
        .expect("a shell can be started");
    let tree = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert_eq!(tree.len(), 40, "{}", String::from_utf8_lossy(&output.stderr));
    let commit = git.ok("work", &["commit-tree", "-m", "x", &tree]);

    let refused = git.refused("work", &["push", &url, &format!("{commit}:refs/heads/main")]);

    assert!(refused.contains("hasDotgit") || refused.contains(".git"), "{refused}");
    let shown = home.call(["repo", "show", REPO, "--json"]).succeed().json();
    assert_eq!(shown["branches"], 0);
}
