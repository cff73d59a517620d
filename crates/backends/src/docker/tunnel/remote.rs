//! Asks another machine where its container engine is, when the user has not said so.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use coracle_core::Result;

use super::dir::TunnelDir;
use super::master::{self, Master};
use super::words;
use crate::docker::endpoint::remote_socket;

/// For a shell's start files and a look at a few paths.
const ASK: Duration = Duration::from_secs(15);
/// Our few words, after whatever the start files of a shell print.
const ANSWER_MAX: u64 = 64 * 1024;
const FOUND: &str = "coracle-engine ";
const MISSING: &str = "coracle-missing ";
const REFUSED: &str = "coracle-refused ";

/// The state of a socket that cannot be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It exists and we may use it, so something else is wrong.
    Usable,
    /// It exists, but we may not use it.
    Refused,
    Missing,
}

/// Docker first, then Podman; the user's own before the machine's, and what the user has configured for Docker
/// before all.
///
/// A plain `sh` reads it from its input: the login shell there may be any.
const WHERE: &str = r#"
PATH=$PATH:/usr/local/bin:/usr/bin:/bin
own=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
told=${DOCKER_HOST:-$(docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null </dev/null)}
refused=
for socket in "${told#unix://}" /var/run/docker.sock "$own/docker.sock" "$own/podman/podman.sock" /run/podman/podman.sock
do
    [ -S "$socket" ] || continue
    if [ -r "$socket" ] && [ -w "$socket" ]; then echo "coracle-engine $socket"; exit 0; fi
    refused=$socket
done
if [ -n "$refused" ]; then echo "coracle-refused $refused"; fi
"#;

/// Returns the container engine's socket on the other machine.
pub fn ask(master: &Master<'_>, dir: &TunnelDir) -> Result<PathBuf> {
    let deadline = Instant::now() + ASK;
    let answer = converse(master, dir, (WHERE, deadline))?;
    let answer = answer.ok_or_else(|| words::too_slow(master.place, ASK))?;
    match (said(&answer, FOUND), said(&answer, REFUSED)) {
        (Some(socket), _) => Ok(socket),
        (None, Some(socket)) => Err(words::refused(master.place, &socket)),
        (None, None) => Err(words::nowhere(master.place, &dir.words())),
    }
}

/// Returns what is at a path, if the other machine lets us look.
pub fn look(master: &Master<'_>, dir: &TunnelDir, socket: &Path) -> Option<Presence> {
    let (path, deadline) =
        (socket.to_str().filter(|path| remote_socket(path).is_some())?, Instant::now() + ASK);
    let question = format!(
        "if [ -r '{path}' ] && [ -w '{path}' ]; then echo '{FOUND}{path}'; elif [ -e '{path}' ]; then echo '{REFUSED}{path}'; \
         else echo '{MISSING}{path}'; fi"
    );
    let answer = converse(master, dir, (&question, deadline)).ok()??;
    [(FOUND, Presence::Usable), (REFUSED, Presence::Refused), (MISSING, Presence::Missing)]
        .into_iter()
        .find_map(|(word, presence)| said(&answer, word).map(|_| presence))
}

/// Returns the path that follows our word; ignores what else a shell there prints.
fn said(answer: &str, word: &str) -> Option<PathBuf> {
    answer.lines().find_map(|line| remote_socket(line.strip_prefix(word)?))
}

/// Sends a question and returns the answer, unless it takes too long.
fn converse(
    master: &Master<'_>,
    dir: &TunnelDir,
    (question, deadline): (&str, Instant),
) -> Result<Option<String>> {
    let mut command = master.through(dir)?;
    command.arg("sh").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(dir.talk()?);
    let mut child = command.spawn().map_err(|error| master.no_program(error))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    // Less than a page, which any pipe has room for: the write does not block.
    let asked = stdin.map(|mut stdin| stdin.write_all(question.as_bytes()));
    let answer = stdout.map(listen);
    let ended = master::ended(child, deadline);
    if asked.is_none_or(|asked| asked.is_err()) || ended.is_none() {
        return Ok(None);
    }
    let left = deadline.saturating_duration_since(Instant::now());
    Ok(answer.and_then(|answer| answer.recv_timeout(left).ok()))
}

/// Reads to the end on a thread: the connection itself, not only our child, holds the other end of the pipe, so
/// only the receiver's deadline bounds the wait. The thread ends with the connection at the latest.
fn listen(stdout: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut answer = Vec::new();
        let _ = stdout.take(ANSWER_MAX).read_to_end(&mut answer);
        let _ = sender.send(String::from_utf8_lossy(&answer).into_owned());
    });
    receiver
}
