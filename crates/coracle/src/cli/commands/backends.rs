//! `coracle backends`: a line for each backend; `doctor` has the details.

use serde_json::json;

use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stdout;
use crate::cli::stop::Stop;
use crate::cli::table::Columns;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn carry_out(context: &Context, Args {}: Args) -> Result<Exit, Stop> {
    let engine = context.untouched_engine()?;
    let probes: Vec<_> = engine.backends().iter().map(|backend| (backend.name(), backend.probe())).collect();
    if context.json {
        let listed = probes.iter().map(|(name, probe)| {
            let enforced = probe.profile.walls.iter().filter(|wall| wall.enforced).count();
            json!({"name": name, "available": probe.available, "reason": probe.reason,
                   "walls": probe.profile.walls.len(), "enforced": enforced})
        });
        stdout::json(&json!({"backends": listed.collect::<Vec<_>>()}))?;
        return Ok(Exit::SUCCESS);
    }
    let mut table = Columns::new(["BACKEND", "AVAILABLE", "WALLS", "NOT ENFORCED"]);
    for (name, probe) in probes {
        let walls = &probe.profile.walls;
        let open: Vec<&str> =
            walls.iter().filter(|wall| !wall.enforced).map(|wall| wall.name.as_str()).collect();
        table.row([
            name.to_owned(),
            if probe.available { "yes".to_owned() } else { probe.reason.unwrap_or_else(|| "no".to_owned()) },
            format!("{} of {}", walls.len() - open.len(), walls.len()),
            open.join(", "),
        ]);
    }
    table.print()?;
    Ok(Exit::SUCCESS)
}
