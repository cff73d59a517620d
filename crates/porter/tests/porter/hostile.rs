//! Repositories written to do harm at checkout. Whether they did is looked for outside: a canary beside the work tree.

use std::fs;
use std::path::{Path, PathBuf};

use coracle_porter::{CheckedOut, Failed, Why};
use tempfile::TempDir;

use crate::run::{check_out, order};
use crate::source::{Entry, Source, directory, file, link, program};

/// A work tree with a file beside it that nothing may touch.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        fs::create_dir(directory.path().join("work")).unwrap();
        fs::create_dir(directory.path().join("outside")).unwrap();
        fs::write(directory.path().join("outside/canary"), "alive").unwrap();
        Self { directory }
    }

    fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    /// Checks out the tree, and expects everything outside of the work tree to be as it was.
    fn check_out(&self, source: &Source, tree: &str) -> Result<CheckedOut, Failed> {
        let done = check_out(source, order(&self.work(), &source.commit(tree)));
        let outside: Vec<_> = fs::read_dir(self.directory.path().join("outside")).unwrap().collect();
        assert_eq!(outside.len(), 1, "something was written outside");
        assert_eq!(fs::read(self.directory.path().join("outside/canary")).unwrap(), b"alive");
        assert_eq!(fs::read_dir(self.directory.path()).unwrap().count(), 2);
        done
    }
}

fn refuses(entries: impl FnOnce(&Source) -> Vec<Entry>) {
    let (place, source) = (Place::new(), Source::new());
    let entries = entries(&source);
    let names: Vec<_> =
        entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();

    let failed =
        place.check_out(&source, &source.tree(&entries)).expect_err(&format!("{names:?} was written"));

    assert_eq!(failed.why, Why::Refused, "{names:?}: {}", failed.message);
}

#[test]
fn names_that_mean_git_or_lead_elsewhere_are_refused() {
    for name in [
        ".git",
        ".GIT",
        ".Git",
        "git~1",
        ".git ",
        ".git.",
        ".g\u{200c}it",
        "..",
        ".",
        "a/b",
        ".git::$INDEX_ALLOCATION",
    ] {
        refuses(|source| {
            let hook = source.blob(b"#!/bin/sh\ntouch ../outside/pwned\n");
            let hooks = source.tree(&[program("post-checkout", &hook)]);
            vec![directory(name, &source.tree(&[directory("hooks", &hooks)]))]
        });
        refuses(|source| vec![file(name, &source.blob(b"gitdir: ../outside"))]);
    }
}

#[test]
fn a_link_is_never_followed_by_what_is_written_after_it() {
    let outside = |source: &Source| link("a", &source.blob(b"../outside"));
    let below = |source: &Source| source.tree(&[file("canary", &source.blob(b"dead"))]);
    refuses(|source| vec![outside(source), directory("a", &below(source))]);
    refuses(|source| vec![directory("a", &below(source)), outside(source)]);
    refuses(|source| vec![file("a", &source.blob(b"x")), file("a", &source.blob(b"y"))]);
}

#[test]
fn a_tree_that_contains_itself_in_depth_is_refused() {
    refuses(|source| {
        let mut tree = source.tree(&[file("end", &source.blob(b"x"))]);
        for _ in 0..400 {
            tree = source.tree(&[directory("d", &tree)]);
        }
        vec![directory("d", &tree)]
    });
}

#[test]
fn links_may_lead_anywhere_and_stay_links() {
    let (place, source) = (Place::new(), Source::new());
    let tree = source.tree(&[
        link("absolute", &source.blob(b"/etc/passwd")),
        link("hooks", &source.blob(b".git/hooks")),
        link("up", &source.blob(b"../outside/canary")),
    ]);

    place.check_out(&source, &tree).unwrap();

    for (name, target) in [("absolute", "/etc/passwd"), ("hooks", ".git/hooks"), ("up", "../outside/canary")]
    {
        assert_eq!(fs::read_link(place.work().join(name)).unwrap(), Path::new(target));
    }
}

#[test]
fn no_filter_hook_or_attribute_runs_a_program() {
    let (place, source) = (Place::new(), Source::new());
    let tree = source.tree(&[
        file(".gitattributes", &source.blob(b"* filter=evil diff=evil merge=evil\n*.z working-tree-encoding=UTF-16\n")),
        file(".gitconfig", &source.blob(b"[filter \"evil\"]\n\tsmudge = touch ../outside/pwned\n\tprocess = touch ../outside/pwned\n\trequired = true\n")),
        file(".lfsconfig", &source.blob(b"[lfs]\n\turl = http://127.0.0.1:1/\n")),
        file("a", &source.blob(b"contents")),
    ]);

    place.check_out(&source, &tree).unwrap();

    assert_eq!(fs::read(place.work().join("a")).unwrap(), b"contents");
    assert_eq!(fs::read_dir(place.work().join(".git/hooks")).unwrap().count(), 0);
}

#[test]
fn ten_thousand_files_in_deep_directories_come_whole() {
    let (place, source) = (Place::new(), Source::new());
    let ids: Vec<_> = (0..10).map(|number| source.blob(format!("{number}\n").as_bytes())).collect();
    let leaf: Vec<_> = (0..100).map(|number| file(format!("f{number:03}"), &ids[number % 10])).collect();
    let leaf = source.tree(&leaf);
    let middle: Vec<_> = (0..10).map(|number| directory(format!("d{number}"), &leaf)).collect();
    let middle = source.tree(&middle);
    let top: Vec<_> = (0..10).map(|number| directory(format!("d{number}"), &middle)).collect();

    let done = place.check_out(&source, &source.tree(&top)).unwrap();

    assert_eq!(done.files, 10_000);
    assert_eq!(fs::read(place.work().join("d9/d9/f099")).unwrap(), b"9\n");
}
