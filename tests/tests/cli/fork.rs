//! Forking: sandboxes that start with the files of another and share nothing with it from then on.

use std::time::Duration;

use coracle_tests::{Finished, Home, SOON, eventually, requires};
use serde_json::Value;

fn fork(home: &Home, sandbox: &str, flags: &[&str]) -> Value {
    let words = ["fork", sandbox, "--json"].into_iter().chain(flags.iter().copied());
    home.call(words).within(Duration::from_secs(120)).succeed().json()
}

fn ids(forked: &Value) -> Vec<String> {
    let ids = forked["sandbox_ids"].as_array().unwrap_or_else(|| panic!("no ids: {forked}")).iter();
    ids.map(|id| id.as_str().expect("an id is text").to_owned()).collect()
}

fn one(home: &Home, sandbox: &str) -> String {
    ids(&fork(home, sandbox, &[])).remove(0)
}

fn sh(home: &Home, sandbox: &str, script: &str) -> Finished {
    home.exec(sandbox, ["sh", "-c", script]).within(Duration::from_secs(120)).succeed()
}

/// A digest of everything in the workspace.
const DIGEST: &str =
    "find . -type f | LC_ALL=C sort | xargs -d '\\n' cat | sha256sum; find . | LC_ALL=C sort | sha256sum";

#[test]
fn twenty_forks_of_ten_thousand_files_are_independent_and_the_parent_is_unharmed() {
    requires!(native);
    let home = Home::new();
    let parent = home.open();
    let make = "for d in $(seq 100); do mkdir d$d; for f in $(seq 100); do echo $d $f > d$d/f$f; done; done";
    sh(&home, &parent, make);
    let before = sh(&home, &parent, DIGEST).text().to_owned();

    let forked = fork(&home, &parent, &["--count", "20"]);

    let children = ids(&forked);
    assert_eq!((forked["method"].as_str(), children.len()), (Some("layered"), 20), "{forked}");
    eprintln!("held for {} us", forked["held_us"]);
    for (number, child) in children.iter().enumerate() {
        sh(&home, child, &format!("echo {number} > mine; rm -r d{}; echo {number} > d100/f1", number + 1));
    }
    sh(&home, &parent, "echo parent > mine; mv d99/f1 d99/g1");
    for (number, child) in children.iter().enumerate() {
        let seen = sh(&home, child, "cat mine d100/f1 d99/f1; ls -d d* | wc -l").text().to_owned();
        assert_eq!(seen, format!("{number}\n{number}\n99 1\n99\n"));
    }
    sh(&home, &parent, "rm mine; mv d99/g1 d99/f1");
    assert_eq!(sh(&home, &parent, DIGEST).text(), before, "the parent has what it had");
    home.call(["close", &parent]).succeed();
    assert_eq!(sh(&home, &children[7], "cat d50/f50").text(), "50 50\n", "forks outlive the parent");
}

#[test]
fn every_place_is_forked_and_whatever_can_be_done_to_a_file() {
    requires!(native);
    let home = Home::new();
    let parent = home.open();
    sh(
        &home,
        &parent,
        "echo e > /etc/thing; echo t > /tmp/thing; echo u > /usr/local/thing; rm /usr/bin/wc; mkdir -p a/b; echo 1 > a/b/c
         ln -s a/b link; ln a/b/c hard; mkfifo pipe; truncate -s 1G hole; chmod 640 hard; chmod 751 . /tmp/thing
         touch 'odd
name'; echo gone > gone",
    );

    let child = one(&home, &parent);

    let look = "cat /etc/thing /tmp/thing /usr/local/thing link/c; test ! -e /usr/bin/wc; test -p pipe
        stat -c '%n %a %s' hard . /tmp/thing hole; du -k hole | cut -f1; ls | cat -A";
    assert_eq!(sh(&home, &child, look).text(), sh(&home, &parent, look).text());
    sh(
        &home,
        &child,
        "rm -r a gone; mkdir gone; mv /etc/thing /etc/other; rm /usr/local/thing; echo x >> hard",
    );
    assert_eq!(
        sh(&home, &parent, "cat a/b/c gone /etc/thing /usr/local/thing hard").text(),
        "1\ngone\ne\nu\n1\n"
    );
    // A directory that was there before cannot be renamed in one step any more; `mv` copies it.
    sh(&home, &parent, "mv a moved && mkdir a && echo new > a/b");
    assert_eq!(sh(&home, &parent, "cat a/b moved/b/c").text(), "new\n1\n");
}

#[test]
fn a_fork_of_a_fork_of_a_fork_has_it_all() {
    requires!(native);
    let home = Home::new();
    let mut sandbox = home.open();
    for depth in 0..5 {
        sh(
            &home,
            &sandbox,
            &format!("echo {depth} > file-{depth}; echo {depth} >> all; rm -f file-{}", depth - 2),
        );
        let child = one(&home, &sandbox);
        sh(&home, &sandbox, "echo wrong >> all");
        home.call(["close", &sandbox]).succeed();
        sandbox = child;
    }

    let seen = sh(&home, &sandbox, "cat all | tr '\\n' ' '; ls | tr '\\n' ' '").text().to_owned();

    assert_eq!(seen, "0 1 2 3 4 all file-3 file-4 ");
}

#[test]
fn a_sandbox_is_forked_again_and_again_and_keeps_its_execs() {
    requires!(native);
    let home = Home::new();
    let parent = home.open();
    home.call(["exec", &parent, "--id", "first", "--", "echo", "remembered"]).succeed();
    let guests = home.census().guests();

    for number in 0..4 {
        sh(&home, &parent, &format!("echo {number} >> log"));
        let child = one(&home, &parent);
        assert_eq!(sh(&home, &child, "wc -l < log").text(), format!("{}\n", number + 1));
        home.call(["close", &child]).succeed();
    }

    assert_eq!(home.call(["logs", &parent, "first"]).succeed().text(), "remembered\n");
    assert_eq!(home.census().guests(), guests, "the same guest all along");
    assert_eq!(home.call(["fs", "read", &parent, "log"]).succeed().text(), "0\n1\n2\n3\n");
    home.call(["fs", "write", &parent, "written"]).stdin("by the guest").succeed();
    assert_eq!(sh(&home, &parent, "cat written").text(), "by the guest");
}

/// A disk takes 32 generations, and each fork of what is idle makes one.
#[test]
fn a_sandbox_that_was_forked_too_often_for_layers_is_copied() {
    requires!(native);
    let home = Home::new();
    let parent = home.open();
    sh(&home, &parent, "echo first > f");
    let forks = (0..40).map(|_| fork(&home, &parent, &[])).inspect(|forked| {
        home.call(["close", &ids(forked)[0]]).succeed();
    });
    let layered = forks.take_while(|forked| forked["method"] == "layered").count();
    assert_eq!(layered, 31);
    sh(&home, &parent, "echo last > f");

    let forked = fork(&home, &parent, &[]);

    assert_eq!(forked["method"], "copied", "{forked}");
    sh(&home, &parent, "echo parent > f");
    assert_eq!(sh(&home, &ids(&forked)[0], "cat f").text(), "last\n");
    assert_eq!(
        sh(&home, &one(&home, &ids(&forked)[0]), "cat f").text(),
        "last\n",
        "it is forked like any other"
    );
}

#[test]
fn what_runs_is_left_running_and_its_files_are_copied() {
    requires!(native);
    let home = Home::new();
    let parent = home.open();
    let count = "i=0; while :; do i=$((i+1)); echo $i > new; mv new count; done";
    home.call(["exec", &parent, "--detach", "--id", "counter", "--", "sh", "-c", count]).succeed();
    let value =
        |sandbox: &str| home.call(["fs", "read", sandbox, "count"]).run().text().trim().parse::<u64>();
    eventually(SOON, || value(&parent).is_ok()).expect("it counts");

    let forked = fork(&home, &parent, &["--count", "2"]);

    assert_eq!(forked["method"], "copied");
    let children = ids(&forked);
    let first = value(&children[0]).expect("the file was whole");
    assert_eq!(value(&children[1]), Ok(first), "both are of the same moment, and nothing counts there");
    eventually(SOON, || value(&parent).is_ok_and(|now| now > first)).expect("it counts on");
    sh(&home, &children[0], "echo 0 > count");
    assert_eq!(value(&children[1]), Ok(first));
}

#[test]
fn a_fork_has_an_owner_of_its_own_and_epochs() {
    requires!(native);
    let home = Home::new();
    let parent = home.open_with(&["--run", "run_a"]);

    let refused = home.call(["fork", &parent, "--run", "run_b", "--json"]).run();
    let child = ids(&fork(&home, &parent, &["--run", "run_a", "--key", "mine"])).remove(0);

    assert_eq!(refused.error_kind(), "not_owner");
    home.call(["transfer", &child, "--to", "run_b", "--run", "run_a"]).succeed();
    home.call(["exec", &child, "--run", "run_b", "--", "true"]).succeed();
    assert_eq!(
        home.call(["exec", &child, "--run", "run_a", "--json", "--", "true"]).run().error_kind(),
        "lent_out"
    );
    assert_eq!(
        home.call(["exec", &parent, "--run", "run_b", "--json", "--", "true"]).run().error_kind(),
        "not_owner"
    );
    let shown = home.call(["show", &child, "--json"]).succeed().json();
    assert_eq!(shown["forked_from"], parent.as_str());
}

#[test]
fn a_fork_has_a_bound_of_its_own() {
    requires!(native);
    let home = Home::new();
    let parent = home.open_with(&["--disk", "32m"]);
    sh(&home, &parent, "head -c 20M /dev/zero > big");

    let child = one(&home, &parent);

    let filled = home.exec(&child, ["sh", "-c", "head -c 64M /dev/zero > more"]).run();
    assert!(filled.stderr.contains("No space left"), "{filled}");
    assert_eq!(
        sh(&home, &parent, "head -c 8M /dev/zero > fits && stat -c %s big fits").text(),
        "20971520\n8388608\n"
    );
    // What the parent has written still counts for the parent.
    let filled = home.exec(&parent, ["sh", "-c", "head -c 16M /dev/zero > more"]).run();
    assert!(filled.stderr.contains("No space left"), "{filled}");
}

#[test]
fn a_paused_sandbox_is_forked_and_stays_as_it_is() {
    requires!(native);
    let home = Home::new();
    let parent = home.open();
    sh(&home, &parent, "echo here > note");
    home.call(["pause", &parent]).succeed();

    let child = one(&home, &parent);

    assert_eq!(sh(&home, &child, "cat note").text(), "here\n");
    assert_eq!(home.exec(&parent, ["true"]).run().code(), Some(125), "it is paused");
    home.call(["resume", &parent]).succeed();
    assert_eq!(sh(&home, &parent, "echo on >> note; cat note").text(), "here\non\n");
}

#[test]
fn what_is_mounted_is_shared_on_request_and_read_only_mounts_are_no_trouble() {
    requires!(native);
    let home = Home::new();
    let directory = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(directory.path().join("f"), "shared\n").expect("it can be written");
    let path = directory.path().display().to_string();
    let writable = home.open_with(&["--mount", &format!("{path}:/data")]);
    let readable = home.open_with(&["--mount", &format!("{path}:/data:ro")]);

    let refused = home.call(["fork", &writable, "--json"]).run();
    let shared = ids(&fork(&home, &writable, &["--share-mounts"])).remove(0);
    let reading = one(&home, &readable);

    assert_eq!(refused.error_kind(), "conflict");
    sh(&home, &shared, "echo more >> /data/f");
    assert_eq!(sh(&home, &reading, "cat /data/f").text(), "shared\nmore\n");
}

#[test]
fn files_that_are_not_on_a_disk_are_not_forked_and_that_is_said() {
    requires!(native);
    let memory = Home::new();
    let sandbox = memory.open_with(&["--storage", "memory"]);
    let ordinary = Home::ordinary();
    let rootless = ordinary.open();

    assert_eq!(memory.call(["fork", &sandbox, "--json"]).run().error_kind(), "unsupported");
    for verb in ["fork", "snapshot"] {
        let refused = ordinary.call([verb, &rootless, "--json"]).run().error();
        assert_eq!(refused["kind"], "unsupported", "{refused}");
        assert_eq!(refused["message"], "forks and snapshots need root");
        assert_eq!(refused["hint"], "run coracle as root, and open the sandbox again there");
    }

    memory.exec(&sandbox, ["true"]).succeed();
    ordinary.exec(&rootless, ["true"]).succeed();
    assert_eq!((memory.live().len(), ordinary.live().len()), (1, 1));
}

#[test]
fn a_disk_goes_with_the_last_who_uses_it() {
    requires!(native);
    let home = Home::new();
    let devices = || {
        let home = home.path().to_string_lossy().into_owned();
        let files = std::fs::read_dir("/sys/block").expect("there is a /sys").flatten();
        let backing =
            files.filter_map(|entry| std::fs::read_to_string(entry.path().join("loop/backing_file")).ok());
        backing.filter(|file| file.contains(&home)).count()
    };
    let parent = home.open();
    let children = ids(&fork(&home, &parent, &["--count", "3"]));
    assert_eq!(devices(), 4, "the parent's is one for all");

    home.call(["close", &parent]).succeed();
    home.call(["close", &children[0]]).succeed();
    sh(&home, &children[1], "echo on > f");
    home.call(["close", &children[1]]).succeed();
    home.call(["close", &children[2]]).succeed();

    eventually(SOON, || devices() == 0).expect("no device is left");
    home.expect_nothing_left();
}
