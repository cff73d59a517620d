//! Repeats requests about containers until their state is one that bollard knows.
//!
//! Podman reports a container as `stopped` from the end of its process until it has cleaned up, which takes
//! milliseconds. Docker has no such state, so bollard fails to read the whole answer.

use std::future::Future;
use std::time::{Duration, Instant};

use bollard::errors::Error;

/// Podman cleans up in a separate process, which a busy machine may delay. Less than [`patience::ANSWER`](super::patience).
const PATIENCE: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(20);

/// Repeats the request while a container is between two states.
pub async fn settled<T, F>(question: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        match question().await {
            Err(error) if is_between(&error) && Instant::now() < deadline => tokio::time::sleep(AGAIN).await,
            answer => return answer,
        }
    }
}

/// Tells whether an answer could not be had because a container is between two states.
pub fn is_between(error: &Error) -> bool {
    match error {
        Error::JsonDataError { message, .. } => message.contains("unknown variant `stopped`"),
        // Podman's answer when asked to remove a container that is just ending.
        Error::DockerResponseServerError { message, .. } => message.contains("container state improper"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn unknown(word: &str) -> Error {
        Error::JsonDataError { message: format!("unknown variant `{word}`, expected one of"), column: 1 }
    }

    fn ask(word: &str) -> (Result<u32, Error>, u32) {
        let asked = Cell::new(0);
        let question = || {
            asked.set(asked.get() + 1);
            let answer = if asked.get() < 3 { Err(unknown(word)) } else { Ok(7) };
            async move { answer }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let answer = runtime.expect("a runtime can be made").block_on(settled(question));
        (answer, asked.get())
    }

    #[test]
    fn a_container_between_two_states_is_asked_for_again() {
        assert!(matches!(ask("stopped"), (Ok(7), 3)));
    }

    #[test]
    fn any_other_answer_that_cannot_be_read_is_an_error_at_once() {
        assert!(matches!(ask("improved"), (Err(_), 1)));
    }
}
