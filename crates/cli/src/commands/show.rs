//! `coracle show`: everything known about one sandbox; only its owner sees its execs.

use std::fmt::Write;

use coracle::Result;
use coracle_core::mount::{Access, MountInput};
use coracle_core::spec::Storage;
use coracle_engine::ops::sandbox::get::{self, ExecView};

use super::ps::{age, sleep};
use crate::args::SandboxName;
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::table::Columns;
use crate::{printable, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
}

/// Returns what is known about the named sandbox.
pub fn look(context: &Context, args: &Args) -> Result<get::Output> {
    let engine = context.engine()?;
    let sandbox_id = context.sandbox(&engine, &args.sandbox)?;
    engine.perform(context.call()?, get::Input { sandbox_id })
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let shown = look(context, &args)?;
    match context.json {
        true => stdout::json(&shown)?,
        false => print(context, &shown)?,
    }
    Ok(Exit::SUCCESS)
}

fn print(context: &Context, shown: &get::Output) -> Result<(), Stop> {
    stdout::bytes(facts(context, shown).as_bytes())?;
    if let Some(profile) = &shown.profile {
        let mut walls = Columns::new(["WALL", "ENFORCED", "HOW"]).with_text();
        for wall in &profile.walls {
            let enforced = if wall.enforced { "yes" } else { "no" };
            walls.row([wall.name.clone(), enforced.to_owned(), wall.how.clone()]);
        }
        stdout::line("")?;
        walls.print()?;
    }
    if let Some(egress) = shown.egress.as_ref().filter(|egress| egress.denied > 0) {
        let mut denials = Columns::new(["DENIED", "REASON", "AGO"]);
        for entry in &egress.last {
            let place = format!("{}:{}", entry.denial.host, entry.denial.port);
            let ago = age(context.now().since(entry.at));
            denials.row([place, entry.denial.reason.to_string(), ago]);
        }
        stdout::line("")?;
        denials.print()?;
    }
    if let Some(execs) = &shown.execs {
        let mut table = Columns::new(["EXEC", "STATUS", "COMMAND"]);
        for exec in execs {
            table.row([exec.exec_id.clone(), status(exec), exec.cmd.join(" ")]);
        }
        stdout::line("")?;
        table.print()?;
    }
    Ok(())
}

fn facts(context: &Context, shown: &get::Output) -> String {
    let summary = &shown.summary;
    let holders: Vec<&str> = shown.holders.iter().map(|holder| holder.as_str()).collect();
    let labels = summary.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let mounts = shown.mounts.iter().map(mount);
    let refused: Vec<_> =
        shown.refused.iter().map(|refusal| format!("{}: {}", refusal.backend, refusal.reason)).collect();
    let limits = &shown.limits;
    let storage = match shown.storage {
        Some(Storage::Disk) => "disk",
        Some(Storage::Memory) => "memory",
        None => "",
    };
    let kept = summary.kept.as_ref();
    let (size, ends) = kept.map(|kept| sleep(Some(kept), context.now())).unwrap_or_default();
    let limit = |value: Option<u64>| value.map_or_else(|| "unlimited".to_owned(), |value| value.to_string());
    let facts = [
        ("sandbox", summary.sandbox_id.to_string()),
        ("state", summary.state.to_string()),
        ("reason", summary.reason.clone().unwrap_or_default()),
        ("holders", holders.join(" > ")),
        ("epoch", summary.epoch.0.to_string()),
        ("key", summary.session_key.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("backend", summary.backend.clone()),
        ("refused", refused.join("; ")),
        ("image", summary.image.clone()),
        ("digest", shown.image_digest.clone().unwrap_or_default()),
        ("workdir", shown.workdir.clone()),
        ("storage", storage.to_owned()),
        ("mounts", mounts.collect::<Vec<_>>().join(", ")),
        ("network", shown.network.to_string()),
        ("labels", labels.collect::<Vec<_>>().join(" ")),
        ("memory (MiB)", limit(limits.memory_mb)),
        ("cpu (thousandths)", limit(limits.cpu_millicores)),
        ("pids", limit(limits.pids)),
        ("idle limit", age(limits.idle())),
        ("age", age(context.now().since(summary.created_at))),
        ("asleep", kept.map(|kept| age(context.now().since(kept.since))).unwrap_or_default()),
        ("size", size),
        ("ends", ends),
    ];
    let mut text = String::new();
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<18} {}", printable::line(value));
    }
    text
}

fn mount(mount: &MountInput) -> String {
    let access = match mount.access {
        Access::ReadWrite => "rw",
        Access::ReadOnly => "ro",
        Access::Overlay => "overlay",
    };
    format!("{} at {} ({access})", mount.source, mount.target)
}

fn status(exec: &ExecView) -> String {
    match (exec.progress.exit_code, exec.progress.complaint()) {
        (Some(code), _) => format!("exited {code}"),
        (None, Some(complaint)) => complaint,
        (None, None) => "running".to_owned(),
    }
}
