//! Starts a container and its guest: the boot plan goes over the container's standard input.

use std::time::Duration;

use bollard::container::LogOutput;
use bollard::query_parameters::AttachContainerOptionsBuilder;
use coracle_core::backend::Placement;
use coracle_core::{Error, Kind, Result, SandboxId};
use coracle_wire::{Boot, Decoder, GuestReport, Report};
use futures_util::{Stream, StreamExt};
use tokio::io::AsyncWriteExt;

use super::connect::Reached;
use super::container;
use super::settled::settled;
use super::{Docker, connect};

/// A guest that has not come up by then never will. Container engines on a busy machine take seconds.
const BOOT_TIME: Duration = Duration::from_secs(60);

/// The names of the moments at which tests crash the process.
#[derive(Debug, Clone, Copy)]
pub struct Moments {
    pub attached: &'static str,
    pub started: &'static str,
}

/// Starts the container and sends its guest the plan.
pub fn start(docker: &Docker, container: &str, plan: &Boot, moments: Moments) -> Result<GuestReport> {
    let frame = coracle_wire::encode(plan)
        .map_err(|error| Error::internal("could not write the boot plan", error))?;
    let attach = AttachContainerOptionsBuilder::default().stdin(true).stdout(true).stream(true).build();
    let report = docker.client.ask("start the container", |engine| async move {
        let mut attached = settled(|| engine.attach_container(container, Some(attach.clone()))).await?;
        (docker.config.crash)(moments.attached);
        settled(|| engine.start_container(container, None)).await?;
        (docker.config.crash)(moments.started);
        let converse = async {
            attached.input.write_all(&frame).await?;
            attached.input.flush().await?;
            Ok(hear(&mut attached.output).await)
        };
        tokio::time::timeout(BOOT_TIME, converse)
            .await
            .unwrap_or_else(|_| Ok(Err("it took too long".to_owned())))
    })?;
    report.map_err(|words| Error::new(Kind::StartFailed, format!("the guest did not come up: {words}")))
}

/// Waits for the guest's answer.
async fn hear(
    output: &mut (impl Stream<Item = Result<LogOutput, bollard::errors::Error>> + Unpin),
) -> Report {
    let mut decoder = Decoder::default();
    while let Some(piece) = output.next().await {
        match piece.map_err(|error| error.to_string())? {
            LogOutput::StdOut { message } | LogOutput::Console { message } => decoder.push(&message),
            LogOutput::StdErr { .. } | LogOutput::StdIn { .. } => {}
        }
        if let Some(payload) = decoder.next_payload().map_err(|error| error.to_string())? {
            return coracle_wire::decode::<Report>(payload).map_err(|error| error.to_string())?;
        }
    }
    Err("its process ended at once".to_owned())
}

/// Finds out how to reach a guest that has come up. Records when its container was started, if only the container
/// engine can say later whether the guest is still the same.
pub fn place(docker: &Docker, sandbox: &SandboxId, container: &str) -> Result<Placement> {
    let reached = connect::choose(docker, sandbox);
    let started = match reached {
        Reached::Socket => None,
        Reached::Program => connect::started(docker, container)?,
    };
    Ok(Placement(serde_json::json!({
        "container": container, "engine": docker.client.shown(), "by": reached.name(), "started": started
    })))
}

/// Tells whether the container engine could not find the guest's program, or even the directory its volume has
/// beside it.
pub fn is_without_guest(error: &Error) -> bool {
    let words = error.chain();
    let absent =
        ["no such file or directory", "read-only file system"].iter().any(|sign| words.contains(sign));
    words.contains(container::PROGRAM_DIRECTORY) && absent
}
