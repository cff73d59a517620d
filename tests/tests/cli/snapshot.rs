//! Snapshots: the files of a sandbox as an image that outlives it.

use coracle_tests::{Home, requires};

fn snapshot(home: &Home, sandbox: &str) -> String {
    home.call(["snapshot", sandbox]).succeed().text().trim().to_owned()
}

fn sh(home: &Home, sandbox: &str, script: &str) -> String {
    home.exec(sandbox, ["sh", "-c", script]).succeed().text().to_owned()
}

#[test]
fn a_snapshot_survives_its_sandbox_and_is_opened_more_than_once() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    sh(&home, &sandbox, "echo one > f; echo tool > /usr/local/bin/tool; echo e > /etc/thing; rm /usr/bin/wc");

    let image = snapshot(&home, &sandbox);
    sh(&home, &sandbox, "echo two > f");
    home.call(["close", &sandbox]).succeed();

    assert!(image.starts_with("img_"), "{image}");
    let (first, second) = (home.open_with(&["--image", &image]), home.open_with(&["--image", &image]));
    let look = "cat f /usr/local/bin/tool /etc/thing; test ! -e /usr/bin/wc";
    assert_eq!(sh(&home, &first, look), "one\ntool\ne\n");
    sh(&home, &first, "echo changed > f");
    assert_eq!(sh(&home, &second, look), "one\ntool\ne\n");
    assert_eq!(
        home.call(["run", "--storage", "disk", "--image", &image, "--", "cat", "f"]).succeed().text(),
        "one\n"
    );
}

#[test]
fn a_snapshot_is_listed_removed_and_stays_with_who_uses_it() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    sh(&home, &sandbox, "echo one > f");
    let image = snapshot(&home, &sandbox);
    let opened = home.open_with(&["--image", &image]);

    let listed = home.call(["image", "list"]).succeed();
    assert!(listed.text().contains(&image), "{listed}");
    home.call(["image", "remove", &image]).succeed();

    assert!(!home.call(["image", "list"]).succeed().text().contains(&image));
    assert_eq!(home.call(["open", "--image", &image, "--json"]).run().error_kind(), "image_not_found");
    assert_eq!(home.call(["image", "remove", &image, "--json"]).run().error_kind(), "image_not_found");
    assert_eq!(sh(&home, &opened, "cat f"), "one\n");
    let forked = home.call(["fork", &opened, "--json"]).succeed().json();
    let child = forked["sandbox_ids"][0].as_str().expect("a fork has an id");
    assert_eq!((sh(&home, child, "cat f").as_str(), &forked["method"]), ("one\n", &"layered".into()));
}

#[test]
fn a_snapshot_of_what_runs_of_a_fork_and_of_a_snapshot_has_it_all() {
    requires!(native);
    let home = Home::new();
    let parent = home.open();
    sh(&home, &parent, "echo parent >> f");
    let forked = home.call(["fork", &parent, "--json"]).succeed().json();
    let child = forked["sandbox_ids"][0].as_str().expect("a fork has an id");
    sh(&home, &parent, "echo later > later");
    sh(&home, child, "echo child >> f");
    home.call(["exec", child, "--detach", "--id", "e", "--", "sleep", "600"]).succeed();

    let first = snapshot(&home, child);
    let opened = home.open_with(&["--image", &first]);
    sh(&home, &opened, "echo opened >> f");
    let second = snapshot(&home, &opened);
    home.call(["image", "remove", &first]).succeed();
    for sandbox in [&parent, child, &opened] {
        home.call(["close", sandbox]).succeed();
    }

    let last = home.open_with(&["--image", &second]);
    assert_eq!(sh(&home, &last, "cat f; ls"), "parent\nchild\nopened\nf\n");
}

#[test]
fn a_snapshot_needs_the_ownership_and_a_disk() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--run", "run_a"]);
    let memory = home.open_with(&["--storage", "memory"]);

    assert_eq!(home.call(["snapshot", &sandbox, "--run", "run_b", "--json"]).run().error_kind(), "not_owner");
    assert_eq!(home.call(["snapshot", &memory, "--json"]).run().error_kind(), "unsupported");
}

#[test]
fn files_that_are_mounted_are_said_not_to_be_in_a_snapshot() {
    requires!(native);
    let home = Home::new();
    let project = tempfile::tempdir().expect("a directory can be made");
    let sandbox =
        home.open_with(&["--workspace", project.path().to_str().expect("temporary paths are text")]);

    let kept = home.call(["snapshot", &sandbox]).succeed();

    assert!(kept.stderr.contains("`/workspace` is mounted, so its files are not in the image"), "{kept}");
}
