//! What porter answers about repositories, from its cage, compared with what the machine's git says of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its files has failed")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use coracle_core::{Cancel, Kind, Result};
use coracle_git::porter::ask;
use coracle_porter::{Answer, ConflictKind, FileStatus, Merge, Merged, NewCommit, Question};
use tempfile::TempDir;

/// A repository with a work tree.
struct Repository {
    directory: TempDir,
}

impl Repository {
    fn new() -> Self {
        let repository = Self { directory: TempDir::new().unwrap() };
        repository.git(&["init", "--quiet", "--initial-branch=main", "."], b"");
        repository
    }

    fn git(&self, arguments: &[&str], input: &[u8]) -> String {
        let mut command = Command::new("git");
        command
            .current_dir(self.directory.path())
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs([
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("HOME", "/nonexistent"),
            ])
            .envs([("GIT_AUTHOR_NAME", "An Author"), ("GIT_AUTHOR_EMAIL", "a@test")])
            .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@test")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "git {arguments:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn commit(&self, files: &[(&str, Option<&str>)], message: &str) -> String {
        for (name, contents) in files {
            let path = self.directory.path().join(name);
            match contents {
                Some(contents) => {
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, contents).unwrap();
                }
                None => std::fs::remove_file(path).unwrap(),
            }
        }
        self.git(&["add", "--all"], b"");
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message], b"");
        self.git(&["rev-parse", "HEAD"], b"")
    }

    fn objects(&self) -> std::path::PathBuf {
        self.directory.path().join(".git/objects")
    }

    fn ask(&self, question: Question) -> Result<Answer> {
        ask(&self.objects(), question, &Cancel::default())
    }

    fn merge(&self, ours: &str, theirs: &str) -> Merged {
        let commit = Some(NewCommit {
            parents: vec![ours.to_owned(), theirs.to_owned()],
            message: "merged\n".to_owned(),
            author_name: "A".to_owned(),
            author_email: "a@test".to_owned(),
            time: 1_700_000_000,
        });
        let merge = Merge { base: None, ours: ours.to_owned(), theirs: theirs.to_owned(), commit };
        match self.ask(Question::Merge(merge)).unwrap() {
            Answer::Merged(merged) => merged,
            other => panic!("{other:?}"),
        }
    }
}

/// One commit, and one on each side of it.
fn parted(
    base: &[(&str, Option<&str>)],
    ours: &[(&str, Option<&str>)],
    theirs: &[(&str, Option<&str>)],
) -> (Repository, String, String) {
    let repository = Repository::new();
    repository.commit(base, "base");
    repository.git(&["checkout", "--quiet", "-b", "side"], b"");
    let theirs = repository.commit(theirs, "theirs");
    repository.git(&["checkout", "--quiet", "main"], b"");
    let ours = repository.commit(ours, "ours");
    (repository, ours, theirs)
}

#[test]
fn a_log_is_what_git_says() {
    let repository = Repository::new();
    repository.commit(&[("a", Some("1"))], "one");
    let two = repository.commit(&[("a", Some("2"))], "two\n\nwith a body");
    repository.git(&["repack", "-adq"], b"");
    let three = repository.commit(&[("a", Some("3"))], "three");

    let Ok(Answer::Log { commits, more }) = repository.ask(Question::Log { from: three.clone(), max: 2 })
    else {
        panic!("no log");
    };

    assert!(more);
    let ids: Vec<_> = commits.iter().map(|entry| entry.commit.as_str()).collect();
    assert_eq!(ids, [&three, &two]);
    assert_eq!(commits[1].message, "two\n\nwith a body\n");
    assert_eq!(
        (commits[0].author_name.as_str(), commits[0].parents.as_slice()),
        ("An Author", &[two.clone()][..])
    );
}

#[test]
fn a_diff_names_files_and_shows_lines_while_there_is_room() {
    let repository = Repository::new();
    let one =
        repository.commit(&[("d/a", Some("1\n2\n3\n")), ("gone", Some("x\n")), ("same", Some("s"))], "one");
    let two = repository.commit(&[("d/a", Some("1\nb\n3\n")), ("gone", None), ("new", Some("\0"))], "two");
    let question =
        |text_max| Question::Diff { old: Some(one.clone()), new: two.clone(), files_max: 100, text_max };

    let Ok(Answer::Diff { files, more: false }) = repository.ask(question(1 << 20)) else {
        panic!("no diff")
    };
    let Ok(Answer::Diff { files: bare, .. }) = repository.ask(question(0)) else { panic!("no diff") };

    let seen: Vec<_> =
        files.iter().map(|file| (file.path.as_slice(), file.status, file.added, file.removed)).collect();
    assert_eq!(
        seen,
        [
            (&b"d/a"[..], FileStatus::Modified, Some(1), Some(1)),
            (b"gone", FileStatus::Deleted, Some(0), Some(1)),
            (b"new", FileStatus::Added, None, None),
        ]
    );
    let text = String::from_utf8(files[0].text.clone().unwrap()).unwrap();
    assert!(text.contains("\n-2\n+b\n"), "{text}");
    assert!(bare.iter().all(|file| file.text.is_none() && file.added.is_none()));
}

#[test]
fn a_clean_merge_is_a_pack_that_git_takes_and_agrees_with() {
    let lines: String = (0..20).map(|number| format!("{number}\n")).collect();
    let (ours, theirs) = (lines.replace("0\n1\n", "zero\n1\n"), lines.replace("19\n", "nineteen\n"));
    let (repository, ours, theirs) = parted(
        &[("a", Some(&lines)), ("old", Some(&lines.repeat(2)))],
        &[("a", Some(&ours))],
        &[("a", Some(&theirs)), ("d/b", Some("new\n"))],
    );

    let merged = repository.merge(&ours, &theirs);

    assert_eq!(merged.conflicts, []);
    let (tree, commit) = (merged.tree.unwrap(), merged.commit.unwrap());
    repository.git(&["unpack-objects", "-q", "--strict"], &merged.pack);
    assert_eq!(repository.git(&["rev-parse", &format!("{commit}^{{tree}}")], b""), tree);
    let expected = repository.git(&["merge-tree", "--write-tree", &ours, &theirs], b"");
    assert_eq!(tree, expected);
    repository.git(&["fsck", "--strict", &commit], b"");
}

#[test]
fn a_conflict_names_the_path_its_kind_and_all_three_objects() {
    let (repository, ours, theirs) = parted(
        &[("both", Some("base\n")), ("gone", Some("base\n"))],
        &[("both", Some("ours\n")), ("gone", None), ("added", Some("ours\n"))],
        &[("both", Some("theirs\n")), ("gone", Some("theirs\n")), ("added", Some("theirs\n"))],
    );

    let merged = repository.merge(&ours, &theirs);

    assert_eq!((merged.tree, merged.commit, merged.pack.len()), (None, None, 0));
    let mut kinds: Vec<_> = merged.conflicts.iter().map(|one| (one.path.as_slice(), one.kind)).collect();
    kinds.sort_by_key(|(path, _)| *path);
    assert_eq!(
        kinds,
        [
            (&b"added"[..], ConflictKind::AddAdd),
            (b"both", ConflictKind::Content),
            (b"gone", ConflictKind::ModifyDelete),
        ]
    );
    let both = merged.conflicts.iter().find(|one| one.path == b"both").unwrap();
    assert_eq!(both.ours, Some(repository.git(&["rev-parse", &format!("{ours}:both")], b"")));
    assert_eq!(both.theirs, Some(repository.git(&["rev-parse", &format!("{theirs}:both")], b"")));
    assert!(both.base.is_some());
}

#[test]
fn a_commit_is_an_ancestor_of_what_came_after_it() {
    let (repository, ours, theirs) = parted(&[("a", Some("1"))], &[("b", Some("2"))], &[("c", Some("3"))]);
    let base = repository.git(&["merge-base", &ours, &theirs], b"");
    let is = |ancestor: &str, descendant: &str| {
        let (ancestor, descendant) = (ancestor.to_owned(), descendant.to_owned());
        match repository.ask(Question::IsAncestor { ancestor, descendant }) {
            Ok(Answer::IsAncestor { yes }) => yes,
            other => panic!("{other:?}"),
        }
    };

    assert!(is(&base, &ours) && is(&ours, &ours));
    assert!(!is(&ours, &base) && !is(&ours, &theirs));
}

#[test]
fn what_is_not_there_is_not_found_and_what_is_no_id_is_invalid() {
    let repository = Repository::new();
    repository.commit(&[("a", Some("1"))], "one");

    for (from, kind) in [("1".repeat(40), Kind::NotFound), ("main".to_owned(), Kind::Invalid)] {
        let error = repository.ask(Question::Log { from, max: 1 }).expect_err("it is not there");
        assert_eq!(error.kind, kind);
    }
}

#[test]
fn no_configuration_attribute_or_driver_of_a_repository_runs_a_program() {
    let attributes = "* filter=evil diff=evil merge=evil text eol=crlf\n";
    let (repository, ours, theirs) = parted(
        &[(".gitattributes", Some(attributes)), ("a", Some("base\n"))],
        &[("a", Some("ours\n"))],
        &[("a", Some("theirs\n"))],
    );
    let canary = repository.directory.path().join("canary");
    let touch = format!("touch {}", canary.display());
    for setting in [
        "filter.evil.clean",
        "filter.evil.smudge",
        "diff.evil.command",
        "diff.evil.textconv",
        "merge.evil.driver",
    ] {
        repository.git(&["config", setting, &touch], b"");
    }
    let diff =
        Question::Diff { old: Some(ours.clone()), new: theirs.clone(), files_max: 10, text_max: 1 << 20 };

    let merged = repository.merge(&ours, &theirs);
    repository.ask(diff).unwrap();

    assert_eq!(merged.conflicts.len(), 1);
    assert!(!canary.exists());
}

#[test]
fn hostile_trees_and_bombs_are_bounded() {
    let repository = Repository::new();
    let base = repository.commit(&[("a", Some("1"))], "base");
    let blob = repository.git(&["hash-object", "-w", "--stdin"], b"x");
    let mut tree = repository.git(&["mktree"], format!("100644 blob {blob}\tend\n").as_bytes());
    for _ in 0..400 {
        tree = repository.git(&["mktree"], format!("040000 tree {tree}\td\n").as_bytes());
    }
    // Twenty levels of ten entries each, all the same: ten to the power of twenty files.
    let mut wide = repository.git(&["mktree"], format!("100644 blob {blob}\tend\n").as_bytes());
    for _ in 0..20 {
        let lines: String = (0..10).map(|number| format!("040000 tree {wide}\td{number}\n")).collect();
        wide = repository.git(&["mktree"], lines.as_bytes());
    }
    let diff = |new: &str| Question::Diff {
        old: Some(base.clone()),
        new: new.to_owned(),
        files_max: 100,
        text_max: 100,
    };

    let deep = repository.ask(diff(&tree)).expect_err("it is too deep");
    let Ok(Answer::Diff { files, more }) = repository.ask(diff(&wide)) else { panic!("no diff") };

    assert_eq!(deep.kind, Kind::Invalid);
    assert_eq!((files.len(), more), (100, true));
}

#[test]
fn a_cancelled_question_ends() {
    let repository = Repository::new();
    let commit = repository.commit(&[("a", Some("1"))], "one");
    let cancel = Cancel::default();
    cancel.cancel();

    let asked = ask(&repository.objects(), Question::Log { from: commit, max: 1 }, &cancel);

    assert!(asked.is_err());
    assert!(Path::new(&repository.objects()).exists());
}
