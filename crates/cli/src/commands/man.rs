//! `coracle man`: writes a manual page for coracle and one for each verb.

use std::path::PathBuf;

use clap::CommandFactory;
use coracle::{Error, Kind};
use serde_json::json;

use crate::Cli;
use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write the pages into this directory and make it if needed; `man -M DIR` reads those in DIR/man1
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let directory = args.directory;
    let written = std::fs::create_dir_all(&directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &directory));
    written.map_err(|error| {
        let message = format!("could not write manual pages to `{}`", directory.display());
        Error::new(Kind::Invalid, message).caused_by(error)
    })?;
    if context.json {
        stdout::json(&json!({"directory": directory.to_string_lossy()}))?;
    }
    Ok(Exit::SUCCESS)
}
