//! Progress messages of a long call, for clients that asked for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;

use super::call::Command;

/// People start to wonder after about that long.
const EVERY: Duration = Duration::from_secs(1);

/// The client, and its token for the call.
#[derive(Debug, Clone)]
pub struct Beats {
    pub peer: Peer<RoleServer>,
    pub token: ProgressToken,
}

impl Beats {
    /// Sends every second how long the call has taken and how much output there is. Never ends; drop it to stop.
    pub async fn send(beats: Option<Self>, command: Arc<Command>) {
        let Some(beats) = beats else { return std::future::pending().await };
        let began = Instant::now();
        loop {
            tokio::time::sleep(EVERY).await;
            let command = Arc::clone(&command);
            let output = tokio::task::spawn_blocking(move || command.output_so_far()).await.ok().flatten();
            let elapsed = began.elapsed().as_secs_f64();
            let message = match output {
                Some(bytes) => format!("{elapsed:.0} s, {bytes} bytes of output"),
                None => format!("{elapsed:.0} s"),
            };
            let progress = ProgressNotificationParam::new(beats.token.clone(), elapsed).with_message(message);
            // A client that does not get progress must still get its answer.
            let _ = beats.peer.notify_progress(progress).await;
        }
    }
}
