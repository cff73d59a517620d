//! Repositories to fetch from: made by the machine's git, from names and contents that its porcelain would refuse.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A bare repository.
pub struct Source {
    directory: TempDir,
}

/// One entry of a tree, as bytes.
pub struct Entry {
    pub mode: &'static str,
    pub name: Vec<u8>,
    pub id: String,
}

impl Source {
    pub fn new() -> Self {
        let source = Self { directory: TempDir::new().unwrap() };
        source.git(&["init", "--quiet", "--bare", "--initial-branch=main", "."], b"");
        source
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// Runs git in it, without any configuration but its own, and returns what it printed.
    pub fn git(&self, arguments: &[&str], input: &[u8]) -> String {
        String::from_utf8(git(self.directory.path(), arguments, input)).unwrap().trim_end().to_owned()
    }

    pub fn blob(&self, contents: &[u8]) -> String {
        self.git(&["hash-object", "-w", "--stdin"], contents)
    }

    /// Writes a tree exactly as it is told, in order.
    pub fn tree(&self, entries: &[Entry]) -> String {
        let mut bytes = Vec::new();
        for entry in entries {
            bytes.extend(entry.mode.bytes().chain([b' ']).chain(entry.name.iter().copied()).chain([0]));
            bytes.extend((0..20).map(|at| u8::from_str_radix(&entry.id[at * 2..at * 2 + 2], 16).unwrap()));
        }
        self.git(&["hash-object", "-w", "--stdin", "-t", "tree", "--literally"], &bytes)
    }

    /// Commits a tree on `main` and returns the commit.
    pub fn commit(&self, tree: &str) -> String {
        let parent =
            git_maybe(self.directory.path(), &["rev-parse", "--verify", "--quiet", "refs/heads/main"]);
        let mut arguments = vec!["commit-tree", tree, "-m", "a commit"];
        if let Some(parent) = &parent {
            arguments.extend(["-p", parent]);
        }
        let commit = self.git(&arguments, b"");
        self.git(&["update-ref", "refs/heads/main", &commit], b"");
        commit
    }
}

pub fn file(name: impl AsRef<[u8]>, id: &str) -> Entry {
    Entry { mode: "100644", name: name.as_ref().to_vec(), id: id.to_owned() }
}

pub fn program(name: &str, id: &str) -> Entry {
    Entry { mode: "100755", ..file(name, id) }
}

pub fn link(name: &str, id: &str) -> Entry {
    Entry { mode: "120000", ..file(name, id) }
}

pub fn directory(name: impl AsRef<[u8]>, id: &str) -> Entry {
    Entry { mode: "40000", ..file(name, id) }
}

pub fn submodule(name: &str) -> Entry {
    Entry { mode: "160000", ..file(name, "1111111111111111111111111111111111111111") }
}

/// Runs git in a directory and returns what it printed.
pub fn git(directory: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child =
        command(directory, arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {arguments:?}");
    output.stdout
}

fn git_maybe(directory: &Path, arguments: &[&str]) -> Option<String> {
    let output = command(directory, arguments).output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim_end().to_owned())
}

pub fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(directory)
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", directory)
        .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")])
        .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@test")])
        .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@test")]);
    command
}
