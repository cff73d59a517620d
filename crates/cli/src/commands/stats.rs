//! `coracle stats`: shows what sandboxes use.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use coracle::SandboxId;
use coracle_core::bytes::Bytes;
use coracle_engine::ops::sandbox::stats::{self, Stats};

use super::ps::age;
use crate::args::SandboxName;
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::table::Columns;
use crate::{paint, stdout, terminal};

/// How often `--watch` refreshes: numbers a person can still read.
const EVERY: Duration = Duration::from_secs(2);
/// When it refreshes for the first time: only the second reading gives a CPU percentage.
const SOON: Duration = Duration::from_millis(500);
/// Clears the terminal, once.
const CLEAR: &str = "\x1b[2J";
/// Puts the cursor at the top.
const TOP: &str = "\x1b[H";
/// Clears the rest of a line, and the rest of the terminal: unlike clearing everything, this does not flicker.
const REST_OF_LINE: &str = "\x1b[K";
const REST: &str = "\x1b[J";

/// With `--json` and `--watch`, every look is a document on a line of its own.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show this sandbox alone: name it by its id, its key, or the beginning of its id
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
            false => table(&seen, None).print()?,
        }
        return Ok(Exit::SUCCESS);
    }
    if !context.json && terminal::width().is_some() {
        stdout::bytes(CLEAR.as_bytes())?;
    }
    let mut before = Before::default();
    loop {
        let seen = look()?.sandboxes;
        let wait = if before.at.is_some() { EVERY } else { SOON };
        match context.json {
            true => stdout::json_line(&seen)?,
            false => draw(table(&seen, Some(&before)))?,
        }
        before = Before::of(&seen);
        std::thread::sleep(wait);
    }
}

/// The previous reading.
#[derive(Debug, Default)]
struct Before {
    at: Option<Instant>,
    cpu_ms: BTreeMap<SandboxId, u64>,
}

impl Before {
    fn of(seen: &[Stats]) -> Self {
        let used = |one: &Stats| Some((one.sandbox_id.clone(), one.usage.cpu_ms?));
        Self { at: Some(Instant::now()), cpu_ms: seen.iter().filter_map(used).collect() }
    }

    /// Returns a sandbox's use of one CPU since then, in percent.
    fn percent(&self, one: &Stats) -> Option<f64> {
        let (since, then) = (self.at?.elapsed(), self.cpu_ms.get(&one.sandbox_id)?);
        Some(share(one.usage.cpu_ms?.saturating_sub(*then), since))
    }
}

fn share(used_ms: u64, since: Duration) -> f64 {
    100.0 * used_ms as f64 / (since.as_secs_f64() * 1000.0).max(1.0)
}

/// Draws over the previous table; without a terminal, one table follows the other.
fn draw(table: Columns) -> Result<(), Stop> {
    let Some(width) = terminal::width() else { return table.print() };
    let rows = usize::from(terminal::size().rows).saturating_sub(1).max(2);
    let shown = table.render(Some(width), paint::on_stdout());
    let lines: Vec<_> = shown.lines().take(rows).map(|line| format!("{line}{REST_OF_LINE}\n")).collect();
    stdout::bytes(format!("{TOP}{}{REST}", lines.concat()).as_bytes())
}

fn table(seen: &[Stats], before: Option<&Before>) -> Columns {
    let mut table = Columns::new([
        "SANDBOX", "KEY", "STATE", "CPU %", "CPU", "MEMORY", "PEAK", "PROCS", "DISK", "EXECS", "OUTPUT",
        "DENIED", "UP", "IDLE",
    ])
    .spare(&["OUTPUT", "DENIED", "PEAK", "EXECS", "CPU", "UP", "DISK", "STATE", "IDLE"]);
    for one in seen {
        let usage = &one.usage;
        let percent = before.and_then(|before| before.percent(one));
        table.row([
            one.sandbox_id.to_string(),
            one.session_key.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            one.state.to_string(),
            percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1}")),
            or_dash(usage.cpu_ms, |millis| format!("{}.{:02}s", millis / 1000, millis % 1000 / 10)),
            of(usage.memory_bytes.map(bytes), one.memory_limit_bytes.map(bytes)),
            or_dash(usage.memory_peak_bytes, bytes),
            of(
                usage.processes.map(|count| count.to_string()),
                one.processes_limit.map(|max| max.to_string()),
            ),
            of(usage.disk_bytes.map(bytes), usage.disk_limit_bytes.map(bytes)),
            or_dash(one.execs_running, |count| count.to_string()),
            or_dash(one.output_bytes, bytes),
            or_dash(one.network_denied, |count| count.to_string()),
            or_dash(one.uptime_ms, span),
            or_dash(one.idle_ms, span),
        ]);
    }
    // A single reading gives no percentage.
    let table = if before.is_none() { table.without("CPU %") } else { table };
    if seen.iter().any(|one| one.session_key.is_some()) { table } else { table.without("KEY") }
}

/// Returns the use and its limit.
fn of(used: Option<String>, limit: Option<String>) -> String {
    match (used, limit) {
        (None, _) => "-".to_owned(),
        (Some(used), None) => used,
        (Some(used), Some(limit)) => format!("{used} / {limit}"),
    }
}

fn or_dash(value: Option<u64>, shown: impl Fn(u64) -> String) -> String {
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
    fn a_processor_that_was_always_used_is_a_hundred_percent() {
        assert_eq!(share(500, Duration::from_millis(500)), 100.0);
        assert_eq!(share(3000, Duration::from_secs(2)), 150.0);
        assert_eq!(share(0, Duration::ZERO), 0.0);
    }

    #[test]
    fn an_unknown_value_is_a_dash_and_no_zero() {
        assert_eq!(of(None, Some("1".to_owned())), "-");
        assert_eq!(of(Some("1".to_owned()), None), "1");
        assert_eq!(of(Some("1".to_owned()), Some("2".to_owned())), "1 / 2");
        assert_eq!(or_dash(None, bytes), "-");
        assert_eq!(or_dash(Some(0), bytes), "0 B");
    }
}
