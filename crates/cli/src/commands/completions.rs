//! `coracle completions`: a script with which a shell completes our verbs, flags and sandboxes.

use clap_complete::Shell;
use coracle::Error;

use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{completion, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell that reads it, as in `source <(coracle completions bash)`
    shell: Shell,
}

pub fn carry_out(_: &Context, args: Args) -> Result<Exit, Stop> {
    let mut script = Vec::new();
    completion::write_script(args.shell, &mut script)
        .map_err(|error| Error::internal("could not write completions", error))?;
    stdout::bytes(&script)?;
    Ok(Exit::SUCCESS)
}
