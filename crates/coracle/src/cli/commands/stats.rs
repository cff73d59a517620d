//! `coracle stats`: shows what sandboxes use.

use std::time::Duration;

use coracle_core::bytes::Bytes;
use coracle_engine::ops::sandbox::stats::{self, Stats};

use super::ps::age;
use crate::cli::args::SandboxName;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stdout;
use crate::cli::stop::Stop;
use crate::cli::table::Columns;

/// How often `--watch` looks: numbers a person can still read.
const EVERY: Duration = Duration::from_secs(2);
/// Puts the cursor at the top and clears what is below.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// With `--json` and `--watch`, every look is a document on a line of its own.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this one
    #[arg(value_name = "SBX")]
    sandbox: Option<SandboxName>,
    /// Look again every two seconds, until interrupted
    #[arg(long, short)]
    watch: bool,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let (engine, caller) = (context.engine()?, context.caller()?);
    let sandbox = args.sandbox.map(|name| context.sandbox(&engine, &name)).transpose()?;
    let look = || engine.perform(&caller, stats::Input { sandbox_id: sandbox.clone() });
    if !args.watch {
        let seen = look()?.sandboxes;
        match context.json {
            true => stdout::json(&seen)?,
            false => table(seen)?,
        }
        return Ok(Exit::SUCCESS);
    }
    loop {
        let seen = look()?.sandboxes;
        match context.json {
            true => stdout::json_line(&seen)?,
            false => {
                if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
                    stdout::bytes(CLEAR)?;
                }
                table(seen)?;
            }
        }
        std::thread::sleep(EVERY);
    }
}

fn table(seen: Vec<Stats>) -> Result<(), Stop> {
    let mut table = Columns::new([
        "SANDBOX", "STATE", "CPU", "MEMORY", "PEAK", "PROCS", "DISK", "EXECS", "OUTPUT", "DENIED", "UP",
        "IDLE",
    ]);
    for one in seen {
        let usage = one.usage;
        table.row([
            one.sandbox_id.into(),
            one.state.to_string(),
            told(usage.cpu_ms, |millis| format!("{}.{:02}s", millis / 1000, millis % 1000 / 10)),
            of(usage.memory_bytes.map(bytes), one.memory_limit_bytes.map(bytes)),
            told(usage.memory_peak_bytes, bytes),
            of(
                usage.processes.map(|count| count.to_string()),
                one.processes_limit.map(|max| max.to_string()),
            ),
            of(usage.disk_bytes.map(bytes), usage.disk_limit_bytes.map(bytes)),
            told(one.execs_running, |count| count.to_string()),
            told(one.output_bytes, bytes),
            told(one.network_denied, |count| count.to_string()),
            told(one.uptime_ms, span),
            told(one.idle_ms, span),
        ]);
    }
    table.print()
}

/// Returns what is used and how much that may be.
fn of(used: Option<String>, limit: Option<String>) -> String {
    match (used, limit) {
        (None, _) => "-".to_owned(),
        (Some(used), None) => used,
        (Some(used), Some(limit)) => format!("{used} / {limit}"),
    }
}

fn told(value: Option<u64>, shown: impl Fn(u64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

fn bytes(count: u64) -> String {
    Bytes(count).to_string()
}

fn span(millis: u64) -> String {
    age(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_tell_is_a_dash_and_no_zero() {
        assert_eq!(of(None, Some("1".to_owned())), "-");
        assert_eq!(of(Some("1".to_owned()), None), "1");
        assert_eq!(of(Some("1".to_owned()), Some("2".to_owned())), "1 / 2");
        assert_eq!(told(None, bytes), "-");
        assert_eq!(told(Some(0), bytes), "0 B");
    }
}
