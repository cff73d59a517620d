//! Asking another machine where its engine is, when nobody has said so.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{ChildStdout, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use coracle_core::Result;

use super::master::{self, Master};
use super::room::Room;
use super::words;
use crate::docker::endpoint::remote_socket;

/// A shell's start files and a look at a few paths.
const ASK: Duration = Duration::from_secs(15);
/// Our few words, after whatever the start files of a shell print.
const ANSWER_MAX: u64 = 64 * 1024;
const FOUND: &str = "coracle-engine ";
const REFUSED: &str = "coracle-refused ";

/// Docker first, then podman; the user's own before the machine's, and what the user has told Docker before all.
///
/// Read by a plain `sh` from its input: the login shell over there may be any.
const QUESTION: &str = r#"
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

/// Returns the engine's socket on the other machine.
pub fn ask(master: &Master<'_>, room: &Room) -> Result<PathBuf> {
    let deadline = Instant::now() + ASK;
    let answer = converse(master, room, deadline)?.ok_or_else(|| words::too_slow(master.place, ASK))?;
    let said = |what: &str| answer.lines().find_map(|line| remote_socket(line.strip_prefix(what)?));
    match (said(FOUND), said(REFUSED)) {
        (Some(socket), _) => Ok(socket),
        (None, Some(socket)) => Err(words::refused(master.place, &socket)),
        (None, None) => Err(words::nowhere(master.place, &room.words())),
    }
}

/// Puts the question and returns what comes back, unless it takes too long.
fn converse(master: &Master<'_>, room: &Room, deadline: Instant) -> Result<Option<String>> {
    let mut command = master.through(room)?;
    command.arg("sh").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(room.talk()?);
    let mut child = command.spawn().map_err(|error| master.no_program(error))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    // It fits into a pipe, so writing does not wait for a reader.
    let asked = stdin.map(|mut stdin| stdin.write_all(QUESTION.as_bytes()));
    let answer = stdout.map(listen);
    let ended = master::ended(child, deadline);
    if asked.is_none_or(|asked| asked.is_err()) || ended.is_none() {
        return Ok(None);
    }
    let left = deadline.saturating_duration_since(Instant::now());
    Ok(answer.and_then(|answer| answer.recv_timeout(left).ok()))
}

/// Reads to the end on a thread: the connection itself, not only our child, holds the other end of the pipe, so
/// nothing but the deadline of whoever receives bounds the wait. The thread ends with the connection at the latest.
fn listen(stdout: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut answer = Vec::new();
        let _ = stdout.take(ANSWER_MAX).read_to_end(&mut answer);
        let _ = sender.send(String::from_utf8_lossy(&answer).into_owned());
    });
    receiver
}

/// So that a fault in the question is not found on other people's machines.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_fits_into_a_pipe() {
        assert!(QUESTION.len() < 4096);
    }
}
