//! The repository a sandbox works on, and the branch it gets there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BranchName, Heads, Oid, RepoName};
use crate::error::{Error, Kind, Result};
use crate::ids::{RepoId, RunId, SandboxId};
use crate::mount::Mount;
use crate::near;
use crate::spec::WORKSPACE;

/// The default beginning of branches that coracle makes.
pub const PREFIX: &str = "coracle";
/// The default author of commits in sandboxes.
pub const AUTHOR: &str = "coracle <coracle@localhost>";
/// Room for the prefix and the end of a name: a part of a ref has at most 200 bytes.
const RUN_MAX: usize = 120;
/// How many last characters of a sandbox's id make a name its own.
const OWN: usize = 8;

/// The repository a sandbox shall work on, as a caller names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepoChoice {
    /// The repository, by id or by name.
    pub repo_id: String,
    /// The branch the work starts from; the repository's default branch if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<BranchName>,
    /// The branch to make for the work; named after the run if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchName>,
    /// How many commits of the history the sandbox gets; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub depth: Option<u32>,
    /// Lets the image's own git reach the repository as `origin`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remote: bool,
}

impl RepoChoice {
    /// Refuses what cannot be, whatever the repository is.
    pub fn check(&self, mounts: &[Mount]) -> Result<()> {
        if self.repo_id.is_empty() {
            return Err(Error::invalid("repo.repo_id", "is empty"));
        }
        if self.depth == Some(0) {
            return Err(Error::invalid("repo.depth", "must be at least 1"));
        }
        if self.remote {
            let what = "the image's own git cannot reach the repository yet (`repo.remote`)";
            return Err(
                Error::new(Kind::Unsupported, what).hint("leave `remote` out; commit in the workspace")
            );
        }
        let within =
            |mount: &&Mount| mount.target == WORKSPACE || mount.target.starts_with(&format!("{WORKSPACE}/"));
        match mounts.iter().find(within) {
            Some(mount) => {
                let what = format!("needs the workspace to itself, and `{}` is mounted", mount.target);
                Err(Error::invalid("repo", what).hint("leave out the repository, or the mount"))
            }
            None => Ok(()),
        }
    }
}

/// Where a sandbox works: its repository, and its branch there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepoPlace {
    pub repo_id: RepoId,
    /// The branch the work started from.
    pub base_branch: BranchName,
    /// The branch of the work.
    pub branch: BranchName,
    /// The commit it started from.
    pub base_sha: Oid,
}

/// Who commits in sandboxes, and how their branches begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoPolicy {
    pub prefix: BranchName,
    pub author: Author,
}

impl Default for RepoPolicy {
    fn default() -> Self {
        Self {
            prefix: PREFIX.parse().expect("the default is a branch"),
            author: AUTHOR.parse().expect("the default is an author"),
        }
    }
}

/// An author of commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    pub name: String,
    pub email: String,
}

impl std::str::FromStr for Author {
    type Err = Error;

    /// Reads `NAME <EMAIL>`.
    fn from_str(text: &str) -> Result<Self> {
        let invalid = || {
            Error::invalid("repos.author", format!("`{}` is no author", text.escape_debug()))
                .hint("write `NAME <EMAIL>`")
        };
        let (name, email) =
            text.strip_suffix('>').and_then(|rest| rest.split_once('<')).ok_or_else(invalid)?;
        let name = name.trim();
        let plain = |part: &str| !part.is_empty() && part.len() <= 200 && !part.contains(['<', '>']);
        let printable = !text.chars().any(char::is_control);
        match printable && plain(name) && plain(email) && !email.contains(' ') {
            true => Ok(Self { name: name.to_owned(), email: email.to_owned() }),
            false => Err(invalid()),
        }
    }
}

impl std::fmt::Display for Author {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} <{}>", self.name, self.email)
    }
}

/// Returns the branch the work starts from, and its commit. Errors name branches that are nearly called so.
pub fn base(choice: &RepoChoice, repo: &RepoName, heads: &Heads) -> Result<(BranchName, Oid)> {
    let wanted = choice.base_branch.as_ref().or(heads.default.as_ref());
    let Some(wanted) = wanted else {
        return Err(Error::new(Kind::NotFound, format!("repository `{repo}` has no default branch"))
            .hint("name a branch to start from")
            .detail("field", "repo.base_branch"));
    };
    if let Some(commit) = heads.branch(wanted) {
        return Ok((wanted.clone(), commit.clone()));
    }
    let names: Vec<String> = heads.branches().map(|branch| branch.to_string()).collect();
    let texts: Vec<&str> = names.iter().map(String::as_str).collect();
    let close = near::names_like(wanted.as_str(), &texts);
    let hint = match (close.first(), texts.is_empty()) {
        (Some(close), _) => format!("is it `{close}`?"),
        (None, true) => "it is empty: push a branch to it first".to_owned(),
        (None, false) => format!("it has `{}`", texts[..texts.len().min(10)].join("`, `")),
    };
    Err(Error::new(Kind::NotFound, format!("repository `{repo}` has no branch `{wanted}`"))
        .hint(hint)
        .detail("field", "repo.base_branch"))
}

/// Returns the branch for the work of a run: named after the run, and after the sandbox where that name is taken. Never
/// below an existing branch, where git could not keep it.
pub fn branch_for(
    prefix: &BranchName,
    run: &RunId,
    sandbox: &SandboxId,
    heads: &Heads,
) -> Result<BranchName> {
    let plain = beside(format!("{prefix}/run-{}", encoded(run)), heads);
    let own: String =
        sandbox.as_str().chars().rev().take(OWN).collect::<Vec<_>>().into_iter().rev().collect();
    let name = if is_free(&plain, heads) { plain } else { beside(format!("{plain}-{own}"), heads) };
    match is_free(&name, heads) {
        true => name.parse(),
        false => Err(Error::new(Kind::Conflict, format!("there is a branch `{name}` already"))),
    }
}

/// Tells whether a branch of this name can be made: there is none, and none below it.
pub fn is_free(name: &str, heads: &Heads) -> bool {
    let below = format!("{name}/");
    !heads.branches().any(|branch| branch.as_str() == name || branch.as_str().starts_with(&below))
}

/// Returns the name with `-` for each `/` that stands behind the name of a branch.
fn beside(mut name: String, heads: &Heads) -> String {
    let taken = |name: &str| heads.branches().any(|branch| branch.as_str() == name);
    let mut from = 0;
    while let Some(at) = name[from..].find('/').map(|at| from + at) {
        match taken(&name[..at]) {
            true => name.replace_range(at..=at, "-"),
            false => from = at + 1,
        }
    }
    name
}

/// Returns the run's own part of its id, with what git forbids in names percent-encoded.
fn encoded(run: &RunId) -> String {
    let text = run.as_str().strip_prefix("run_").unwrap_or(run.as_str());
    let mut name = String::new();
    for (at, character) in text.char_indices() {
        let rest = &text[at + character.len_utf8()..];
        let forbidden = match character {
            ':' => true,
            // `..`, and a name that ends in `.` or `.lock`.
            '.' => rest.is_empty() || rest.starts_with('.') || rest == "lock",
            _ => false,
        };
        match forbidden {
            true => name.push_str(&format!("%{:02X}", u32::from(character))),
            false => name.push(character),
        }
        if name.len() >= RUN_MAX {
            break;
        }
    }
    // Cut short it may end in a dot of the middle.
    name.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::Ref;
    use super::*;

    fn heads(names: &[&str]) -> Heads {
        let target: Oid = "1".repeat(40).parse().expect("an id");
        let of = |name: &&str| Ref {
            name: format!("refs/heads/{name}").parse().expect("a ref"),
            target: target.clone(),
        };
        Heads { default: "main".parse().ok(), refs: names.iter().map(of).collect() }
    }

    fn made(run: &str, existing: &[&str]) -> String {
        let run = run.parse().expect("a run");
        let sandbox = "sbx_01jd0000000000000012345678".parse().expect("an id");
        let prefix = PREFIX.parse().expect("a branch");
        branch_for(&prefix, &run, &sandbox, &heads(existing)).expect("a name is free").to_string()
    }

    #[test]
    fn a_branch_is_named_after_its_run_and_after_the_sandbox_where_that_is_taken() {
        assert_eq!(made("run_a", &["main"]), "coracle/run-a");
        assert_eq!(made("run_a", &["coracle/run-a"]), "coracle/run-a-12345678");
        assert_eq!(made("run_a", &["coracle/run-a/b"]), "coracle/run-a-12345678");
    }

    #[test]
    fn a_branch_is_never_below_another() {
        assert_eq!(made("run_a", &["coracle"]), "coracle-run-a");
        assert_eq!(made("run_a", &["coracle", "coracle-run-a"]), "coracle-run-a-12345678");
    }

    #[test]
    fn every_id_of_a_run_makes_a_branch_that_git_takes() {
        assert_eq!(made("run_a:b@c.d", &[]), "coracle/run-a%3Ab@c.d");
        assert_eq!(made("run_a..b.", &[]), "coracle/run-a%2E.b%2E");
        assert_eq!(made("run_a.lock", &[]), "coracle/run-a%2Elock");
        let long = format!("run_{}", ":".repeat(100));
        assert!(made(&long, &[]).len() < 200);
    }

    #[test]
    fn a_base_that_is_not_there_is_not_found_and_its_neighbour_is_named() {
        let choice = |base: Option<&str>| RepoChoice {
            repo_id: "app".to_owned(),
            base_branch: base.map(|base| base.parse().expect("a branch")),
            branch: None,
            depth: None,
            remote: false,
        };
        let repo = "app".parse().expect("a name");

        let found = base(&choice(None), &repo, &heads(&["main"])).expect("it is there");
        let missing = base(&choice(Some("mian")), &repo, &heads(&["main"])).expect_err("it is not there");

        assert_eq!(found.0.as_str(), "main");
        assert_eq!(missing.kind, Kind::NotFound);
        assert!(format!("{missing:?}").contains("main"), "{missing:?}");
        assert!(base(&choice(None), &repo, &heads(&[])).is_err());
    }

    #[test]
    fn an_author_has_a_name_and_an_address() {
        let author: Author = "A B <a@b>".parse().expect("an author");
        assert_eq!((author.name.as_str(), author.email.as_str()), ("A B", "a@b"));
        for text in ["", "A", "<a@b>", "A <>", "A <a@b> c", "A\n <a@b>", "A <a b>"] {
            assert!(text.parse::<Author>().is_err(), "{text:?}");
        }
    }
}
