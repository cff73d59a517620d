//! Translates a container engine's refusals.

use bollard::errors::Error as Refusal;
use coracle_core::{Error, Kind};

/// Says what was attempted where, and what to do about it.
pub fn explain(attempted: &str, engine: &str, error: Refusal) -> Error {
    let (kind, hint) = match &error {
        paused if is_about_pause(paused) => (
            Kind::NotAvailable,
            Some(
                "the container is paused at the engine: `docker unpause` resumes it, `coracle close` removes it",
            ),
        ),
        Refusal::DockerResponseServerError { status_code, .. } => (of_status(*status_code), None),
        // The container engine's message during the work; if it failed to reach another host, the message says so.
        Refusal::DockerStreamError { .. } => (Kind::NotAvailable, None),
        Refusal::SocketNotFoundError(_) => (
            Kind::NotAvailable,
            Some("start the engine, or say where it is with DOCKER_HOST (CONTAINER_HOST for podman)"),
        ),
        Refusal::RequestTimeoutError => {
            (Kind::NotAvailable, Some("see whether the engine is stopped or overloaded"))
        }
        other if is_denied(other) => {
            (Kind::NotAvailable, Some("you may not use the engine's socket: see its owner and group"))
        }
        other if is_distrusted(other) => (
            Kind::NotAvailable,
            Some(
                "it and you have to show certificates that the authority in `ca.pem` has signed, each for its name",
            ),
        ),
        // A container engine that does not trust us may close the connection without an answer.
        _ if engine.starts_with("https://") => (
            Kind::NotAvailable,
            Some(
                "see whether the engine is running; it and you have to show certificates that the authority in `ca.pem` \
                 has signed, each for its name",
            ),
        ),
        _ => (Kind::NotAvailable, Some("see whether the engine is running")),
    };
    let told = Error::new(kind, format!("could not {attempted} (engine at {engine})"))
        .detail("engine", engine)
        .caused_by(EngineMessage(words(&error)));
    hint.into_iter().fold(told, |told, hint| told.hint(hint))
}

/// Tells whether the container engine refused with this status.
pub fn is_status(error: &Refusal, status: u16) -> bool {
    matches!(error, Refusal::DockerResponseServerError { status_code, .. } if *status_code == status)
}

/// Tells whether the error says that the container is paused at the container engine: it exists, but cannot be
/// used.
pub fn is_about_pause(error: &Refusal) -> bool {
    // Docker's words and Podman's.
    let words = |message: &str| message.contains("is paused") || message.contains("state paused");
    matches!(error, Refusal::DockerResponseServerError { message, .. } if words(message))
}

fn of_status(status: u16) -> Kind {
    match status {
        404 => Kind::NotFound,
        409 => Kind::Conflict,
        // The container engine does not know what we ask for.
        400 | 501 => Kind::Unsupported,
        _ => Kind::Internal,
    }
}

fn is_denied(error: &Refusal) -> bool {
    causes(error)
        .find_map(|cause| cause.downcast_ref::<std::io::Error>())
        .is_some_and(|io| io.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Tells whether certificates, ours or the container engine's, were the cause.
fn is_distrusted(error: &Refusal) -> bool {
    causes(error).any(is_of_tls)
}

/// An `io::Error` does not list the error inside it among its causes, and here one is inside another.
fn is_of_tls(cause: &(dyn std::error::Error + 'static)) -> bool {
    let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    cause.is::<rustls::Error>() || inner.is_some_and(|inner| is_of_tls(inner))
}

/// Returns the error and its causes, down to the kernel's.
fn causes(error: &Refusal) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source())
}

/// Returns the container engine's message, or those of all causes down to the kernel's.
fn words(error: &Refusal) -> String {
    if let Refusal::DockerResponseServerError { message, .. } = error {
        return message.trim().to_owned();
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(found) = cause {
        let more = found.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = found.source();
    }
    text
}

/// The container engine's message.
#[derive(Debug)]
struct EngineMessage(String);

impl std::fmt::Display for EngineMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EngineMessage {}
