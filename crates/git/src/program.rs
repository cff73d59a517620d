//! The machine's git: where it is, what version it has, and the settings it gets from us and from nobody else.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coracle_core::error::{Error, Kind, Result};

/// Older ones do not sync what they are told to.
const OLDEST: (u32, u32) = (2, 36);

/// Settings for every git we run, above all those in files. Nothing in them names a program.
const SETTINGS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsync", "all"),
    ("core.fsyncMethod", "fsync"),
    ("core.fsmonitor", "false"),
    ("core.logAllRefUpdates", "false"),
    ("core.bigFileThreshold", "16m"),
    ("core.deltaBaseCacheLimit", "64m"),
    ("core.packedGitWindowSize", "16m"),
    ("core.packedGitLimit", "256m"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("pack.threads", "1"),
    ("pack.windowMemory", "64m"),
    ("protocol.allow", "never"),
    ("receive.autogc", "false"),
    ("receive.fsckObjects", "true"),
    ("receive.fsck.badTimezone", "warn"),
    ("receive.fsck.missingNameBeforeEmail", "warn"),
    ("receive.fsck.missingSpaceBeforeDate", "warn"),
    ("receive.fsck.missingSpaceBeforeEmail", "warn"),
    ("receive.fsck.zeroPaddedDate", "warn"),
    ("receive.fsck.zeroPaddedFilemode", "warn"),
    ("receive.advertisePushOptions", "false"),
    ("receive.updateServerInfo", "false"),
    // Packs are kept as packs: one file to sync, whatever is in it.
    ("transfer.unpackLimit", "1"),
    ("uploadpack.hideRefs", "refs/coracle"),
    ("transfer.advertiseSID", "false"),
    ("transfer.credentialsInUrl", "die"),
    ("uploadpack.allowAnySHA1InWant", "false"),
    ("uploadpack.allowReachableSHA1InWant", "false"),
    ("uploadpack.allowTipSHA1InWant", "false"),
    ("uploadpack.allowFilter", "false"),
    ("uploadpack.keepAlive", "5"),
];

/// Where a dynamic program reads its libraries from, and random bytes. Those that are not there are left out.
const LIBRARIES: &[&str] =
    &["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/nix/store", "/gnu/store", "/dev/urandom"];

/// A git that can serve repositories.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    path: PathBuf,
    /// What it reads and executes of the machine.
    pub needs: Vec<PathBuf>,
    pub version: String,
}

impl Program {
    /// Finds the first git in a search path and asks for its version.
    pub fn find(search: &OsStr) -> Result<Self> {
        let path = std::env::split_paths(search).map(|place| place.join("git")).find(|path| is_program(path));
        let path = path.ok_or_else(|| missing("there is no `git` in PATH"))?;
        let said = ask(&path, "version")?;
        let version = said.strip_prefix("git version ").unwrap_or(&said).to_owned();
        if parse(&version).is_none_or(|found| found < OLDEST) {
            let (major, minor) = OLDEST;
            return Err(missing(&format!(
                "`{}` is git {version}, older than {major}.{minor}",
                path.display()
            )));
        }
        let own = PathBuf::from(ask(&path, "--exec-path")?);
        let whole = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let beside = whole.parent().and_then(Path::parent).map(|prefix| prefix.join("lib"));
        let needs = LIBRARIES.iter().map(PathBuf::from).chain([whole, own]).chain(beside);
        let needs = needs.filter(|place| place.exists()).collect();
        Ok(Self { path, needs, version })
    }

    /// Returns a command of git's with our settings and an environment of its own.
    pub fn command(&self, words: &[&OsStr]) -> Command {
        let mut command = bare(&self.path);
        command.env("GIT_CONFIG_COUNT", SETTINGS.len().to_string());
        for (index, (key, value)) in SETTINGS.iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{index}"), key)
                .env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        command.args(words);
        command
    }
}

/// Returns git with an environment that names no file of a person's or the machine's.
fn bare(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_clear().current_dir("/").stdin(Stdio::null());
    command.envs([
        ("LC_ALL", "C"),
        ("HOME", "/nonexistent"),
        ("PATH", "/nonexistent"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", "/nonexistent"),
        ("GIT_PROTOCOL_FROM_USER", "0"),
        ("GIT_ALLOW_PROTOCOL", "none"),
        ("GIT_COMMITTER_NAME", "coracle"),
        ("GIT_COMMITTER_EMAIL", "coracle@localhost"),
    ]);
    command
}

fn ask(path: &Path, question: &str) -> Result<String> {
    let failed = |why: &str| missing(&format!("`{} {question}` {why}", path.display()));
    let output =
        bare(path).arg(question).output().map_err(|error| failed("did not start").caused_by(error))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(failed("failed")),
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn parse(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn missing(why: &str) -> Error {
    let (major, minor) = OLDEST;
    Error::new(Kind::NotAvailable, format!("hosted repositories need git: {why}"))
        .hint(format!("install git {major}.{minor} or newer"))
}

/// Returns words of a command line.
pub(crate) fn words<const N: usize>(words: [&str; N], last: &Path) -> Vec<OsString> {
    words.iter().map(OsString::from).chain([last.as_os_str().to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_distributions_write_them() {
        for (text, expected) in
            [("2.39.5", (2, 39)), ("2.50.1 (Apple Git-155)", (2, 50)), ("2.36.rc1", (2, 36))]
        {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        assert_eq!(parse("unknown"), None);
        assert!((2, 9) < OLDEST && (2, 36) >= OLDEST && (3, 0) > OLDEST);
    }

    #[test]
    fn an_older_git_and_none_at_all_are_not_available() {
        let place = tempfile::tempdir().expect("a directory");
        let kind = || Program::find(place.path().as_os_str()).expect_err("there is none").kind;
        assert_eq!(kind(), Kind::NotAvailable);

        let old = place.path().join("git");
        std::fs::write(&old, "#!/bin/sh\necho git version 2.35.9\n").expect("written");
        std::fs::set_permissions(&old, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("changed");

        // The kernel refuses to execute what another thread's child still has open for writing.
        (0..100).for_each(|_| _ = kind());
        assert_eq!(kind(), Kind::NotAvailable);
    }
}
