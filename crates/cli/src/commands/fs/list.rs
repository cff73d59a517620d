//! `coracle fs list`: the names in a directory, one per line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use crate::args::{ActingArgs, SandboxName};
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{printable, stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    #[arg(default_value = ".")]
    path: OsString,
    /// List what is below, too
    #[arg(long, short)]
    recursive: bool,
    #[command(flatten)]
    acting: ActingArgs,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let mut attached = context.attach(&args.sandbox)?;
    attached.act_as(args.acting.user);
    let listed = attached.list(args.path.as_bytes(), args.recursive.into())?;
    match context.json {
        true => stdout::json(&listed.entries)?,
        false => {
            let names = listed.entries.iter().map(|entry| printable::line(&entry.path) + "\n");
            stdout::bytes(names.collect::<String>().as_bytes())?;
        }
    }
    if listed.truncated {
        stderr::note("there are more names than are listed");
    }
    Ok(Exit::SUCCESS)
}
