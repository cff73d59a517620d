//! Where repositories are keeps them whole, and leaves nothing that counts when it is killed.

use std::ffi::OsString;
use std::path::Path;

use coracle_core::Repos;
use coracle_core::clock::Timestamp;
use coracle_core::repo::RepoName;
use coracle_git::{HostedRepos, Settings};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn open(directory: &Path) -> HostedRepos {
    let settings = Settings { search: OsString::new(), push_max: 1 << 20, crash: |_| {} };
    HostedRepos::new(directory.join("repos"), settings)
}

fn name(text: &str) -> RepoName {
    text.parse().expect("a name")
}

#[test]
fn nothing_is_made_before_the_first_repository() {
    let home = tempfile::tempdir().expect("a directory");
    let repos = open(home.path());

    assert_eq!(repos.list(None).expect("lists"), []);
    assert_eq!(repos.sweep().expect("sweeps"), 0);
    assert!(!home.path().join("repos").exists());
}

#[test]
fn half_made_and_half_removed_ones_are_no_repositories_and_are_swept() {
    let home = tempfile::tempdir().expect("a directory");
    let repos = open(home.path());
    let repo = repos.add(None, &name("whole"), NOW).expect("added");
    for name in [".draft-repo_1", ".gone-repo_2"] {
        std::fs::create_dir_all(home.path().join("repos").join(name).join("git")).expect("made");
    }

    assert_eq!(repos.list(None).expect("lists"), std::slice::from_ref(&repo));
    assert_eq!(repos.remains().expect("looks").len(), 2);
    assert_eq!(repos.sweep().expect("sweeps"), 2);
    assert_eq!(repos.remains().expect("looks"), Vec::<String>::new());
    assert_eq!(repos.list(None).expect("lists"), [repo]);
}

#[test]
fn what_is_in_the_home_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().expect("a directory");
    open(home.path()).add(None, &name("one"), NOW).expect("added");

    let mode = std::fs::metadata(home.path().join("repos")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}
