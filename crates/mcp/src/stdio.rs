//! MCP over standard input and output, for a client that starts this program. It ends when its input ends.

mod lines;
mod streams;

use std::time::Duration;

use coracle_core::{Error, Result};
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio::signal::unix::{SignalKind, signal};

use self::lines::Lines;
pub use self::streams::Streams;
use super::Server;

/// How long running calls may take to end when they are cancelled. Clients that close our input kill us about then.
const ENDING_MAX: Duration = Duration::from_secs(10);

/// Serves one client until its input ends or a signal comes, and then cancels running calls.
pub async fn serve(server: Server, streams: Streams) -> Result<()> {
    let calls = server.calls().clone();
    let lines = Lines::over(streams, calls.clone());
    let end = tokio::select! {
        served = converse(server, lines) => served,
        caught = terminated() => caught,
    };
    calls.close();
    // A call that resists ends by its own deadline, and the next call of coracle cleans up after it.
    let _ = tokio::time::timeout(ENDING_MAX, calls.ended()).await;
    end
}

/// Talks to the client. A client whose first message is invalid may start again.
async fn converse(server: Server, lines: Lines) -> Result<()> {
    loop {
        match server.clone().serve(lines.clone()).await {
            Ok(conversation) => {
                let over = conversation.waiting().await;
                return over
                    .map(drop)
                    .map_err(|error| Error::internal("the connection to the client failed", error));
            }
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(_) if lines.are_over() => return Ok(()),
            Err(_) => {}
        }
    }
}

async fn terminated() -> Result<()> {
    let watch = |kind| signal(kind).map_err(|error| Error::internal("could not watch for signals", error));
    let (mut term, mut hangup, mut interrupt) =
        (watch(SignalKind::terminate())?, watch(SignalKind::hangup())?, watch(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = hangup.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
