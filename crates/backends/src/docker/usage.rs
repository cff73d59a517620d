//! What a sandbox at a container engine uses, as the container engine reports it. It reports nothing about files.

use bollard::query_parameters::StatsOptionsBuilder;
use coracle_core::backend::Placement;
use coracle_core::usage::Usage;
use coracle_core::{Error, Kind, Result, SandboxId};
use futures_util::StreamExt;

use super::{Docker, patience};

pub fn usage(docker: &Docker, sandbox: &SandboxId, placement: &Placement) -> Result<Usage> {
    docker.expect_here(sandbox)?;
    let gone = || Error::new(Kind::NotFound, format!("sandbox `{sandbox}` has no container"));
    let container = placement.0["container"].as_str().ok_or_else(gone)?;
    let said =
        docker.client.ask_within(patience::ANSWER, "ask what a container uses", |engine| async move {
            // Once, without waiting a second for a second reading.
            let options = StatsOptionsBuilder::default().stream(false).one_shot(true).build();
            engine.stats(container, Some(options)).next().await.transpose()
        })?;
    let said = said.ok_or_else(gone)?;
    let memory = said.memory_stats.as_ref();
    let cpu = said.cpu_stats.and_then(|cpu| cpu.cpu_usage).and_then(|usage| usage.total_usage);
    Ok(Usage {
        cpu_ms: cpu.map(|nanos| nanos / 1_000_000),
        memory_bytes: memory.and_then(|memory| memory.usage),
        // Container engines report it only where the kernel uses cgroups v1.
        memory_peak_bytes: memory.and_then(|memory| memory.max_usage).filter(|peak| *peak > 0),
        processes: said.pids_stats.and_then(|pids| pids.current),
        disk_bytes: None,
        disk_limit_bytes: None,
    })
}
