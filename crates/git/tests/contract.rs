//! Hosted repositories keep the contract, with the git of this machine.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use coracle_core::Repos;
use coracle_core::repo::Oid;
use coracle_git::{HostedRepos, Settings};
use coracle_testing::conformance::repos::Shelf;
use tempfile::TempDir;

coracle_testing::repo_conformance!(Directory::new);

struct Directory {
    home: TempDir,
    work: TempDir,
}

impl Directory {
    fn new() -> Self {
        let directory = || tempfile::tempdir().expect("a directory");
        let (home, work) = (directory(), directory());
        git(work.path(), &["init", "-q", "."]);
        Self { home, work }
    }
}

impl Shelf for Directory {
    fn open(&self) -> Box<dyn Repos> {
        let search = std::env::var_os("PATH").expect("PATH is set");
        let settings = Settings { search, push_max: 1 << 30, crash: |_| {} };
        Box::new(HostedRepos::new(self.home.path().join("repos"), settings))
    }

    fn commit(&self, number: u8) -> (Oid, OwnedFd) {
        let work = self.work.path();
        for made in 1..=number {
            let tag = format!("c{made}");
            if !git(work, &["tag", "-l", &tag]).is_empty() {
                continue;
            }
            std::fs::write(work.join("file"), tag.as_bytes()).expect("written");
            git(work, &["add", "file"]);
            git(work, &["commit", "-q", "-m", &tag]);
            git(work, &["tag", &tag]);
        }
        let id = git(work, &["rev-parse", &format!("c{number}")]).parse().expect("an id");
        let pack = work.join("pack");
        std::fs::write(work.join("wanted"), format!("{id}\n")).expect("written");
        let wanted = std::fs::File::open(work.join("wanted")).expect("opened");
        let out = std::fs::File::create(&pack).expect("made");
        let mut command = client(work, &["pack-objects", "--revs", "--stdout", "-q"]);
        assert!(command.stdin(wanted).stdout(out).status().expect("git runs").success());
        (id, std::fs::File::open(pack).expect("opened").into())
    }

    fn bundle(&self, number: u8) -> OwnedFd {
        let (id, _) = self.commit(number);
        let (work, tag) = (self.work.path(), format!("v{number}"));
        git(work, &["checkout", "-q", "-B", "main", id.as_str()]);
        git(work, &["tag", "-f", &tag]);
        git(work, &["bundle", "create", "-q", "bundle", "main", &tag, "HEAD"]);
        // Later commits follow the last one.
        let last = git(work, &["tag", "-l", "c*", "--sort=-version:refname"]);
        git(work, &["checkout", "-q", "--detach", last.lines().next().expect("a tag")]);
        std::fs::File::open(work.join("bundle")).expect("opened").into()
    }
}

fn git(work: &Path, words: &[&str]) -> String {
    let output = client(work, words).stdin(Stdio::null()).output().expect("git runs");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The git of a client: with its own settings, in its own directory.
fn client(work: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(work)
        .args(words)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    command.envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@localhost")]);
    command.envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@localhost")]);
    command
}
