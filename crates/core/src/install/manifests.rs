//! What a filler gets of a repository: the lockfile and the manifests it goes with, and never another file.
//!
//! Each file that was read may name more: members of a workspace, included requirements. The caller reads what
//! [`Manifests::next`] names until there is nothing left. Every path stays below the repository's top.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sha2::{Digest, Sha256};

use super::{Ecosystem, cargo, go, javascript, python};
use crate::error::{Error, Kind, Result};

/// The most bytes of a lockfile. Those of the largest repositories have a few megabytes.
pub const LOCKFILE_MAX: usize = 32 << 20;
/// The most bytes of a manifest.
pub const MANIFEST_MAX: usize = 4 << 20;
/// The most files a filler gets.
pub const FILES_MAX: usize = 2000;
/// The most bytes a filler gets.
pub const BYTES_MAX: usize = 64 << 20;

/// A file that may have to be read, or a directory whose members may have to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// A file, by its path from the top.
    File(String),
    /// The file of this name in each directory directly below the first.
    Members { directory: String, file: &'static str },
}

/// The files of one repository that a filler gets.
#[derive(Debug, Clone)]
pub struct Manifests {
    pub ecosystem: Ecosystem,
    /// The name of the lockfile, in the top.
    pub lockfile: &'static str,
    files: BTreeMap<String, Vec<u8>>,
    bytes: usize,
    /// Empty files the package manager insists on beside a manifest.
    stubs: BTreeSet<String>,
    seen: BTreeSet<Wanted>,
    queue: VecDeque<Wanted>,
}

impl Manifests {
    /// Begins with a lockfile that was read.
    pub fn of(ecosystem: Ecosystem, lockfile: &'static str, contents: Vec<u8>) -> Result<Self> {
        let mut manifests = Self {
            ecosystem,
            lockfile,
            files: BTreeMap::new(),
            bytes: 0,
            stubs: BTreeSet::new(),
            seen: BTreeSet::new(),
            queue: VecDeque::new(),
        };
        let beside: &[&str] = match ecosystem {
            Ecosystem::Pnpm => &["package.json", "pnpm-workspace.yaml"],
            Ecosystem::Npm | Ecosystem::Yarn => &["package.json"],
            Ecosystem::Uv => &["pyproject.toml"],
            Ecosystem::Pip => &[],
            Ecosystem::Cargo => &["Cargo.toml"],
            Ecosystem::Go => &["go.mod", "go.work", "go.work.sum"],
        };
        manifests.seen.insert(Wanted::File(lockfile.to_owned()));
        manifests.add(lockfile.to_owned(), contents)?;
        for name in beside {
            manifests.want(Wanted::File((*name).to_owned()));
        }
        Ok(manifests)
    }

    /// Returns what to look at next.
    pub fn next_wanted(&mut self) -> Option<Wanted> {
        self.queue.pop_front()
    }

    /// Adds a file that was read, and notes which it names.
    pub fn add(&mut self, path: String, contents: Vec<u8>) -> Result<()> {
        self.bytes += contents.len();
        if self.files.len() >= FILES_MAX || self.bytes > BYTES_MAX {
            let what = format!("the manifests are more than {FILES_MAX} files or {} MiB", BYTES_MAX >> 20);
            return Err(Error::new(Kind::LimitExceeded, what));
        }
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let named = match self.ecosystem {
            Ecosystem::Pnpm => Vec::new(),
            Ecosystem::Npm | Ecosystem::Yarn => javascript::named(&path, &contents),
            Ecosystem::Uv | Ecosystem::Pip => python::named(&path, &contents),
            Ecosystem::Cargo => cargo::named(&path, &contents),
            Ecosystem::Go => go::named(&path, &contents),
        };
        if self.ecosystem == Ecosystem::Cargo && path.ends_with("Cargo.toml") {
            let stubs = cargo::stubs(&contents);
            self.stubs.extend(stubs.iter().filter_map(|stub| below(directory, stub)));
        }
        for wanted in named {
            let wanted = match wanted {
                Wanted::File(name) => below(directory, &name).map(Wanted::File),
                Wanted::Members { directory: inner, file } => {
                    below(directory, &inner).map(|directory| Wanted::Members { directory, file })
                }
            };
            wanted.into_iter().for_each(|wanted| self.want(wanted));
        }
        self.files.insert(path, contents);
        Ok(())
    }

    /// Notes a member of a workspace that a directory was found to have.
    pub fn want(&mut self, wanted: Wanted) {
        if self.seen.len() < 2 * FILES_MAX && self.seen.insert(wanted.clone()) {
            self.queue.push_back(wanted);
        }
    }

    /// Returns everything a filler gets, by path from the top.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let stubs = self.stubs.iter().filter(|path| !self.files.contains_key(*path));
        let files = self.files.iter().map(|(path, contents)| (path.as_str(), contents.as_slice()));
        files.chain(stubs.map(|path| (path.as_str(), b"".as_slice())))
    }

    /// Returns the contents of the lockfile.
    pub fn locked(&self) -> &[u8] {
        self.files.get(self.lockfile).map_or(&[], Vec::as_slice)
    }

    /// Returns the SHA-256 of the lockfile alone.
    pub fn lockfile_sha256(&self) -> String {
        hex(&Sha256::digest(self.locked()))
    }

    /// Returns the SHA-256 of every name and byte a filler gets. The package manager may read them all: what is fetched
    /// for other manifests beside the same lockfile is something else.
    pub fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        for (path, contents) in self.files() {
            for part in [path.as_bytes(), contents] {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
        }
        hex(&hash.finalize())
    }
}

/// Returns a path from the top, given from a directory; nothing for one that leaves the top or holds odd bytes.
fn below(directory: &str, path: &str) -> Option<String> {
    if path.starts_with('/') || path.len() > 1000 || path.chars().any(char::is_control) {
        return None;
    }
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            ".git" | "node_modules" => return None,
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ecosystem: Ecosystem, lockfile: &'static str, text: &str) -> Manifests {
        Manifests::of(ecosystem, lockfile, text.as_bytes().to_vec()).expect("it is small")
    }

    fn rest(manifests: &mut Manifests) -> Vec<Wanted> {
        std::iter::from_fn(|| manifests.next_wanted()).collect()
    }

    fn file(path: &str) -> Wanted {
        Wanted::File(path.to_owned())
    }

    #[test]
    fn no_path_leaves_the_top_or_reaches_into_git() {
        for path in
            ["../x", "a/../../x", "/etc/passwd", ".git/config", "a/.git/hooks", "a\nb", "node_modules/a"]
        {
            assert_eq!(below("", path), None, "{path}");
        }
        assert_eq!(below("crates/a", "../b"), Some("crates/b".to_owned()));
        assert_eq!(below("crates/a", "../../../b"), None);
    }

    #[test]
    fn members_of_an_npm_workspace_are_read_from_the_lockfile() {
        let lock = r#"{"packages": {"": {}, "packages/a": {}, "node_modules/x": {}, "node_modules/a": {"link": true}, "../out": {}}}"#;
        let mut manifests = of(Ecosystem::Npm, "package-lock.json", lock);

        assert_eq!(rest(&mut manifests), [file("packages/a/package.json"), file("package.json")]);
    }

    #[test]
    fn crates_of_a_workspace_are_found_by_members_and_paths() {
        let mut manifests = of(Ecosystem::Cargo, "Cargo.lock", "version = 3\n");
        assert_eq!(rest(&mut manifests), [file("Cargo.toml")]);
        let root = "[workspace]\nmembers = [\"crates/*\", \"tool\"]\n[dependencies]\nx = { path = \"../outside\" }\ny = { path = \"y\" }\n";

        manifests.add("Cargo.toml".to_owned(), root.as_bytes().to_vec()).expect("adds");

        let members = Wanted::Members { directory: "crates".to_owned(), file: "Cargo.toml" };
        assert_eq!(rest(&mut manifests), [members, file("tool/Cargo.toml"), file("y/Cargo.toml")]);
    }

    #[test]
    fn included_requirements_are_read_once() {
        let mut manifests = of(
            Ecosystem::Pip,
            "requirements.txt",
            "-r base.txt\n--constraint=c.txt\nsmall==1\n-r base.txt\n",
        );
        assert_eq!(rest(&mut manifests), [file("base.txt"), file("c.txt")]);

        manifests.add("base.txt".to_owned(), b"-r requirements.txt\n".to_vec()).expect("adds");

        assert_eq!(rest(&mut manifests), []);
    }

    #[test]
    fn the_hash_changes_with_every_name_and_byte() {
        let one = of(Ecosystem::Npm, "package-lock.json", "{}");
        let mut two = one.clone();
        two.add("package.json".to_owned(), b"{}".to_vec()).expect("adds");
        let mut three = one.clone();
        three.add("package.jso".to_owned(), b"n{}".to_vec()).expect("adds");

        assert_eq!(one.lockfile_sha256(), two.lockfile_sha256());
        assert_eq!(std::collections::BTreeSet::from([one.sha256(), two.sha256(), three.sha256()]).len(), 3);
    }

    #[test]
    fn too_much_is_refused() {
        let mut manifests = of(Ecosystem::Npm, "package-lock.json", "{}");

        let refused = manifests.add("package.json".to_owned(), vec![b' '; BYTES_MAX]);

        assert_eq!(refused.expect_err("too much").kind, Kind::LimitExceeded);
    }
}
