//! Hostile build contexts: they try to reach files of the machine.

use std::os::unix::fs::symlink;

use coracle_tests::engines::{TEST_IMAGE, docker};
use coracle_tests::requires;

use crate::workshop::{build, context, home, run};

#[test]
fn a_link_out_of_the_context_brings_nothing_of_the_machine() {
    requires!(docker);
    let home = home(docker());
    let secret = tempfile::tempdir().expect("a directory");
    std::fs::write(secret.path().join("key"), "the machine's secret").expect("ours");
    let context = context(&format!("FROM {TEST_IMAGE}\nCOPY . /all\nRUN find /all > /names\n"), &[]);
    symlink(secret.path().join("key"), context.path().join("file")).expect("ours");
    symlink(secret.path(), context.path().join("directory")).expect("ours");
    symlink("/etc/shadow", context.path().join("shadow")).expect("ours");

    build(&home, docker(), "localhost/links:1", context.path(), &[]).succeed();

    let names = run(docker(), "localhost/links:1", &["cat", "/names"]);
    assert_eq!(names.lines().filter(|name| name.contains("key")).count(), 0, "{names}");
    let follow = "for name in file directory/key shadow; do cat /all/$name; done; true";
    let found = run(docker(), "localhost/links:1", &["sh", "-c", follow]);
    assert_eq!(found, "");
}

#[test]
fn a_link_as_the_source_of_a_copy_leads_nowhere() {
    requires!(docker);
    let home = home(docker());
    let context = context(&format!("FROM {TEST_IMAGE}\nCOPY passwd /stolen\n"), &[]);
    symlink("/etc/hostname", context.path().join("passwd")).expect("ours");

    let error = build(&home, docker(), "localhost/link:1", context.path(), &["--json"]).run().error();

    assert_eq!(error["kind"], "execution_failed", "{error}");
}

#[test]
fn what_the_ignore_file_names_does_not_reach_the_engine() {
    requires!(docker);
    let home = home(docker());
    let ignore = "**/*.key\nprivate\n!private/but-this\nDockerfile\n";
    let files = [
        (".dockerignore", ignore),
        ("a.key", "k"),
        ("src/deep/b.key", "k"),
        ("src/main", "m"),
        ("private/secret", "s"),
        ("private/but-this", "t"),
    ];
    let context = context(&format!("FROM {TEST_IMAGE}\nCOPY . /all\n"), &files);

    build(&home, docker(), "localhost/ignored:1", context.path(), &[]).succeed();

    let found = run(docker(), "localhost/ignored:1", &["sh", "-c", "cd /all && find . -type f | sort"]);
    assert_eq!(found, "./.dockerignore\n./private/but-this\n./src/main\n");
}

#[test]
fn a_pipe_in_the_context_does_not_block_a_build() {
    requires!(docker);
    let home = home(docker());
    let context = context(&format!("FROM {TEST_IMAGE}\nCOPY . /all\n"), &[]);
    let made = std::process::Command::new("mkfifo").arg(context.path().join("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()));

    build(&home, docker(), "localhost/pipe:1", context.path(), &[]).succeed();
}

#[test]
fn what_a_step_prints_does_not_move_the_cursor() {
    requires!(docker);
    let home = home(docker());
    let context = context(&format!("FROM {TEST_IMAGE}\nRUN printf '\\033[2Jerror: lie\\n'\n"), &[]);

    let built = build(&home, docker(), "localhost/printed:1", context.path(), &["--no-cache"]).succeed();

    assert!(!built.stderr.contains('\u{1b}'), "{}", built.stderr);
    assert!(built.stderr.contains("error: lie"), "{}", built.stderr);
}
