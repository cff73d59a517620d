//! `coracle completions`: a script that teaches a shell our verbs and flags.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stdout;
use crate::cli::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    shell: Shell,
}

pub fn carry_out(_: &Context, args: Args) -> Result<Exit, Stop> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "coracle", &mut script);
    stdout::bytes(&script)?;
    Ok(Exit::SUCCESS)
}
