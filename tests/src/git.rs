//! A person's git, as a client of hosted repositories: with settings and directories of a test's own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A directory with work trees, and a git that knows nothing else.
#[derive(Debug)]
pub struct Git {
    directory: TempDir,
    variables: Vec<(String, String)>,
}

impl Default for Git {
    fn default() -> Self {
        Self::new()
    }
}

impl Git {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory can be made"), variables: Vec::new() }
    }

    /// Sets a variable for every call.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Sets a variable for every later call.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Makes a work tree with a first commit on `main`.
    pub fn start(&self, tree: &str) {
        self.ok(".", &["init", "-q", "-b", "main", tree]);
        self.commit(tree, "file", "first\n");
    }

    /// Writes a file and commits it; returns the commit.
    pub fn commit(&self, tree: &str, file: &str, content: &str) -> String {
        let path = self.path(tree).join(file);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).expect("a directory can be made");
        }
        std::fs::write(path, content).expect("a file can be written");
        self.ok(tree, &["add", "-A"]);
        self.ok(tree, &["commit", "-q", "-m", file]);
        self.tip(tree)
    }

    /// Returns the commit a work tree is at.
    pub fn tip(&self, tree: &str) -> String {
        self.ok(tree, &["rev-parse", "HEAD"])
    }

    /// Runs git in a work tree and returns what it says.
    #[track_caller]
    pub fn ok(&self, tree: &str, words: &[&str]) -> String {
        let output = self.run(tree, words);
        assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Runs git in a work tree and returns what it complains of.
    #[track_caller]
    pub fn refused(&self, tree: &str, words: &[&str]) -> String {
        let output = self.run(tree, words);
        assert!(!output.status.success(), "git {words:?} was not refused");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs git in a work tree to its end, which comes within two minutes.
    pub fn run(&self, tree: &str, words: &[&str]) -> Output {
        let mut command = self.command(tree, words);
        command.stdin(Stdio::null()).output().expect("git can be started")
    }

    /// Returns git with these words.
    pub fn command(&self, tree: &str, words: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["120", "git"]).args(words).current_dir(self.path(tree));
        clean(&mut command, self.directory.path());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

fn clean(command: &mut Command, home: &Path) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).env("HOME", home).env("LC_ALL", "C");
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_TERMINAL_PROMPT", "0")]);
    command.envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@localhost")]);
    command.envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@localhost")]);
}
