//! Explains what went wrong with a connection, from ssh's own messages, and what to do about it.
//!
//! The messages may come from the other machine: we show only a part, without what could move a terminal's cursor.

use std::path::Path;
use std::time::Duration;

use coracle_core::{Error, Kind};

use super::remote::Presence;
use crate::docker::endpoint::SshPlace;

const GROUP: &str =
    "make the user there a member of the group the socket belongs to, usually `docker`, or name another user";
/// A line of ssh's is shorter; a hostile banner is not.
const LINE_MAX: usize = 300;

/// ssh's messages, in the order to look for them, and what helps.
const KNOWN: &[(&str, Cure)] = &[
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", Cure::KeyChanged),
    ("Host key verification failed", Cure::KeyUnknown),
    ("Could not resolve hostname", Cure::Name),
    ("Permission denied", Cure::Login),
    ("Too many authentication failures", Cure::Login),
    ("Connection refused", Cure::Machine),
    ("timed out", Cure::Machine),
    ("No route to host", Cure::Machine),
    ("Network is unreachable", Cure::Machine),
    ("Connection closed", Cure::Machine),
    ("Connection reset", Cure::Machine),
    ("Broken pipe", Cure::Machine),
];

#[derive(Debug, Clone, Copy)]
enum Cure {
    KeyChanged,
    KeyUnknown,
    Name,
    Login,
    Machine,
}

/// No connection could be made.
pub fn not_reached(place: &SshPlace, words: &str) -> Error {
    said(Error::new(Kind::NotAvailable, format!("could not connect to `{place}`")), place, words)
}

/// The connection works, but leads to no container engine.
pub fn not_led(place: &SshPlace, socket: &Path, words: &str, found: Option<Presence>) -> Error {
    let (socket, host) = (socket.display(), &place.host);
    let error =
        Error::new(Kind::NotAvailable, format!("could not reach the engine's socket `{socket}` on `{host}`"));
    let error = match line(words) {
        Some(line) => error.caused_by(line),
        None => error,
    };
    match found {
        Some(Presence::Usable) => error.hint(
            "the socket is there, so either no engine listens at it, or sshd forbids to forward it: \
             `AllowStreamLocalForwarding yes` in its `sshd_config`",
        ),
        Some(Presence::Refused) => error.hint(GROUP),
        Some(Presence::Missing) => error.hint("no such socket is there: start the engine, or name another"),
        None => {
            error.hint(format!("see whether the engine works there: `{} docker version`", command(place)))
        }
    }
}

/// Something took longer than anything should.
pub fn too_slow(place: &SshPlace, limit: Duration) -> Error {
    Error::new(Kind::NotAvailable, format!("`{place}` did not answer within {limit:?}"))
        .hint(format!("find out what `{} true` waits for", command(place)))
}

/// What listens there does not speak Docker's API.
pub fn no_engine(place: &SshPlace, socket: &Path) -> Error {
    Error::new(
        Kind::NotAvailable,
        format!("what listens at `{}` on `{}` is no engine", socket.display(), place.host),
    )
    .hint("name the socket of Docker or podman: `ssh://host/path/to/engine.sock`")
}

/// What listens there does not answer.
pub fn silent(place: &SshPlace, socket: &Path) -> Error {
    Error::new(
        Kind::NotAvailable,
        format!("the engine at `{}` on `{}` does not answer", socket.display(), place.host),
    )
    .hint(format!("see whether it works there: `{} docker version`", command(place)))
}

/// There is a container engine, but we may not use it.
pub fn refused(place: &SshPlace, socket: &Path) -> Error {
    let message = format!("the user on `{}` may not use the engine at `{}`", place.host, socket.display());
    Error::new(Kind::NotAvailable, message).hint(
        "make that user a member of the group the socket belongs to, usually `docker`, or name another user",
    )
}

/// There is no container engine.
pub fn nowhere(place: &SshPlace, words: &str) -> Error {
    let message =
        format!("found no engine on `{}`: neither Docker's socket nor podman's is there", place.host);
    let error = Error::new(Kind::NotAvailable, message)
        .hint("start the engine there, or name its socket: `ssh://host/path/to/engine.sock`");
    match line(words) {
        Some(line) => error.caused_by(line),
        None => error,
    }
}

/// Adds ssh's message and what helps.
fn said(error: Error, place: &SshPlace, words: &str) -> Error {
    let known = KNOWN.iter().find_map(|(text, cure)| {
        words.lines().find(|line| line.contains(text)).map(|line| (shown(line), *cure))
    });
    match known {
        Some((line, cure)) => error.hint(cure.hint(place)).caused_by(line),
        None => error
            .hint(format!("see what `{} true` says", command(place)))
            .caused_by(line(words).unwrap_or_else(|| "ssh said nothing".to_owned())),
    }
}

impl Cure {
    fn hint(self, place: &SshPlace) -> String {
        let ssh = command(place);
        match self {
            Self::KeyChanged => format!(
                "the connection may be intercepted: ask the machine's operator; if its key is new, `ssh-keygen -R {}`",
                host(place)
            ),
            Self::KeyUnknown => {
                format!("connect once by hand, compare the fingerprint and accept it: `{ssh}`")
            }
            Self::Name => {
                "no such name, and no such `Host` in ssh's settings: correct one or the other".to_owned()
            }
            Self::Login => {
                format!(
                    "`{ssh} true` has to work without a question: put the key into ssh's settings or the agent"
                )
            }
            Self::Machine => format!("is the machine up and sshd running? See what `{ssh} true` says"),
        }
    }
}

/// Returns the command a person would type.
fn command(place: &SshPlace) -> String {
    let port = place.port.map_or(String::new(), |port| format!(" -p {port}"));
    let user = place.user.as_ref().map_or(String::new(), |user| format!("{user}@"));
    format!("ssh{port} {user}{}", place.host)
}

/// Returns the name under which ssh stores a host key.
fn host(place: &SshPlace) -> String {
    match place.port {
        Some(port) => format!("'[{}]:{port}'", place.host),
        None => place.host.clone(),
    }
}

/// Returns the last message.
fn line(words: &str) -> Option<String> {
    words.lines().rfind(|line| !line.trim().is_empty()).map(shown)
}

fn shown(line: &str) -> String {
    let line = line.trim();
    line[..line.floor_char_boundary(LINE_MAX)].chars().filter(|char| !char.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> SshPlace {
        SshPlace { user: Some("me".into()), host: "far".into(), port: Some(2222), socket: None }
    }

    #[test]
    fn words_of_ssh_lead_to_what_helps() {
        for (words, hint) in [
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
                "ssh-keygen -R '[far]:2222'",
            ),
            (
                "No ED25519 host key is known for far\nHost key verification failed.",
                "accept it: `ssh -p 2222 me@far`",
            ),
            ("ssh: Could not resolve hostname far: Name or service not known", "no such name"),
            ("me@far: Permission denied (publickey).", "has to work without a question"),
            ("ssh: connect to host far port 22: Connection refused", "is the machine up"),
            ("kex_exchange_identification: read: Connection reset by peer", "is the machine up"),
            ("something new", "see what `ssh -p 2222 me@far true` says"),
            ("", "see what"),
        ] {
            let error = not_reached(&place(), words);

            assert_eq!(error.kind, Kind::NotAvailable);
            let found = error.hint.clone().expect("a hint");
            assert!(found.contains(hint), "{words}: {found}");
        }
    }

    #[test]
    fn what_the_other_machine_says_cannot_move_the_cursor_or_fill_the_screen() {
        let words = format!("fine\n\u{1b}[2J\u{7}{}", "ä".repeat(10_000));

        let chain = not_reached(&place(), &words).chain();

        assert!(chain.len() < 500, "{}", chain.len());
        assert!(!chain.contains(['\u{1b}', '\u{7}']), "{chain}");
    }
}
