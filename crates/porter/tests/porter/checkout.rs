//! What a checkout leaves in the work tree and in `.git`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::run::{check_out, order};
use crate::source::{Source, command, directory, file, git, link, program, submodule};

fn text(directory: &Path, arguments: &[&str]) -> String {
    String::from_utf8(git(directory, arguments, b"")).unwrap().trim_end().to_owned()
}

/// A repository with a file, a program, a link and a directory, and two commits.
fn ordinary() -> (Source, String) {
    let source = Source::new();
    let (one, two) = (source.blob(b"one\n"), source.blob(b"#!/bin/sh\n"));
    source.commit(&source.tree(&[file("file", &one)]));
    let below = source.tree(&[program("run", &two)]);
    let target = source.blob(b"file");
    let tree = source.tree(&[directory("bin", &below), file("file", &one), link("link", &target)]);
    let commit = source.commit(&tree);
    (source, commit)
}

#[test]
fn a_checkout_is_what_git_would_have_made() {
    let (source, commit) = ordinary();
    let place = TempDir::new().unwrap();

    let done = check_out(&source, order(place.path(), &commit)).unwrap();

    let top = place.path();
    assert_eq!((done.files, done.objects), (3, 8));
    assert_eq!(fs::read(top.join("file")).unwrap(), b"one\n");
    assert_eq!(fs::read_link(top.join("link")).unwrap(), Path::new("file"));
    assert_eq!(fs::metadata(top.join("bin/run")).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(
        text(top, &["status", "--porcelain=v2", "--branch"]),
        format!("# branch.oid {commit}\n# branch.head coracle/run-1")
    );
    assert_eq!(text(top, &["rev-parse", "origin/main"]), commit);
    assert_eq!(text(top, &["log", "--oneline"]).lines().count(), 2);
    assert_eq!(text(top, &["config", "user.name"]), "An \"Author\"");
    text(top, &["fsck", "--strict"]);
    // Nothing but what a work tree has: an index that says so without reading a file.
    assert!(command(top, &["diff-files", "--quiet"]).status().unwrap().success());
}

#[test]
fn work_goes_on_in_a_checkout() {
    let (source, commit) = ordinary();
    let place = TempDir::new().unwrap();
    check_out(&source, order(place.path(), &commit)).unwrap();

    fs::write(place.path().join("file"), "two\n").unwrap();
    text(place.path(), &["commit", "--quiet", "-am", "work"]);

    assert_eq!(text(place.path(), &["rev-parse", "HEAD~1"]), commit);
    assert_eq!(text(place.path(), &["status", "--porcelain"]), "");
}

#[test]
fn a_depth_bounds_the_history() {
    let (source, commit) = ordinary();
    let place = TempDir::new().unwrap();

    check_out(&source, coracle_porter::Checkout { depth: Some(1), ..order(place.path(), &commit) }).unwrap();

    assert_eq!(text(place.path(), &["log", "--oneline"]).lines().count(), 1);
    assert_eq!(text(place.path(), &["rev-parse", "--is-shallow-repository"]), "true");
    assert_eq!(text(place.path(), &["status", "--porcelain"]), "");
}

#[test]
fn an_origin_is_named_only_if_it_was_ordered() {
    let (source, commit) = ordinary();
    let (with, without) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let origin = Some("http://127.0.0.1:9/a.git".to_owned());

    check_out(&source, coracle_porter::Checkout { origin, ..order(with.path(), &commit) }).unwrap();
    check_out(&source, order(without.path(), &commit)).unwrap();

    assert_eq!(text(with.path(), &["remote", "get-url", "origin"]), "http://127.0.0.1:9/a.git");
    assert_eq!(text(without.path(), &["remote"]), "");
}

#[test]
fn lines_end_as_attributes_say_and_names_need_not_be_text() {
    let source = Source::new();
    let (attributes, lines) = (source.blob(b"*.txt text eol=crlf\n"), source.blob(b"a\nb\n"));
    let tree = source.tree(&[
        file(".gitattributes", &attributes),
        file("a.txt", &lines),
        file(b"b\xff\xfe", &lines),
    ]);
    let commit = source.commit(&tree);
    let place = TempDir::new().unwrap();

    check_out(&source, order(place.path(), &commit)).unwrap();

    assert_eq!(fs::read(place.path().join("a.txt")).unwrap(), b"a\r\nb\r\n");
    assert_eq!(text(place.path(), &["status", "--porcelain"]), "");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 4);
}

#[test]
fn a_submodule_is_left_alone() {
    let source = Source::new();
    let modules = source.blob(b"[submodule \"a\"]\n\tpath = sub\n\turl = ext::touch pwned\n");
    let commit = source.commit(&source.tree(&[file(".gitmodules", &modules), submodule("sub")]));
    let place = TempDir::new().unwrap();

    check_out(&source, order(place.path(), &commit)).unwrap();

    assert_eq!(fs::read_dir(place.path().join("sub")).map(Iterator::count).unwrap_or(0), 0);
    assert_eq!(text(place.path(), &["status", "--porcelain"]), "");
}

#[test]
fn a_directory_with_files_in_it_is_left_as_it_is() {
    let (source, commit) = ordinary();
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("mine"), "mine").unwrap();

    let failed = check_out(&source, order(place.path(), &commit)).unwrap_err();

    assert_eq!(failed.why, coracle_porter::Why::Occupied);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn a_commit_that_is_not_there_is_not_found() {
    let (source, _) = ordinary();
    let place = TempDir::new().unwrap();

    let failed = check_out(&source, order(place.path(), &"1".repeat(40))).unwrap_err();

    assert_eq!(failed.why, coracle_porter::Why::NotFound, "{}", failed.message);
}
