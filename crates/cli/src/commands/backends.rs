//! `coracle backends`: a line for each backend; `doctor` has the details.

use coracle_engine::probes::Probed;
use serde_json::{Value, json};

use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;
use crate::table::Columns;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn carry_out(context: &Context, Args {}: Args) -> Result<Exit, Stop> {
    let probed = context.untouched_engine()?.placement().probe_all();
    match context.json {
        true => stdout::json(&probed.iter().map(object).collect::<Vec<_>>())?,
        false => print(&probed)?,
    }
    Ok(Exit::SUCCESS)
}

fn print(probed: &[Probed]) -> Result<(), Stop> {
    let mut table = Columns::new(["BACKEND", "AVAILABLE", "VERSION", "ENDPOINT", "WALLS", "NOTE"])
        .spare(&["ENDPOINT", "VERSION"])
        .with_text();
    for backend in probed {
        let Probed { name, default, probe } = backend;
        let (open, walls) = (not_enforced(backend), probe.profile.walls.len());
        table.row([
            if *default { format!("{name} (default)") } else { name.clone() },
            if probe.available { "yes".to_owned() } else { "no".to_owned() },
            probe.version.clone().unwrap_or_default(),
            probe.endpoint.clone().unwrap_or_default(),
            if probe.available { format!("{} of {walls}", walls - open.len()) } else { String::new() },
            match (&probe.reason, open.as_slice()) {
                (Some(reason), _) if !probe.available => reason.clone(),
                (_, []) => String::new(),
                (_, open) => format!("not enforced: {}", open.join(", ")),
            },
        ]);
    }
    table.print()
}

fn object(backend: &Probed) -> Value {
    let Probed { name, default, probe } = backend;
    let (open, walls) = (not_enforced(backend), probe.profile.walls.len());
    json!({
        "name": name, "default": default, "available": probe.available, "reason": probe.reason,
        "version": probe.version, "endpoint": probe.endpoint,
        "walls": walls, "enforced": walls - open.len(), "not_enforced": open, "profile": probe.profile,
    })
}

fn not_enforced(backend: &Probed) -> Vec<&str> {
    let walls = backend.probe.profile.walls.iter();
    walls.filter(|wall| !wall.enforced).map(|wall| wall.name.as_str()).collect()
}
