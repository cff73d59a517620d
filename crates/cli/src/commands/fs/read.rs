//! `coracle fs read`: prints a file unchanged, whatever its size.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use coracle::Error;
use coracle_engine::ops::sandbox::fs_read;

use crate::args::{ActingArgs, SandboxName};
use crate::context::Context;
use crate::exit::Exit;
use crate::stdout::{self, Sink};
use crate::stop::Stop;

/// The most a document holds; without `--json` there is no bound.
const JSON_MAX: usize = 16 << 20;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    path: OsString,
    #[command(flatten)]
    acting: ActingArgs,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    match context.json {
        true => document(context, args),
        false => stream(context, &args),
    }
}

fn stream(context: &Context, args: &Args) -> Result<Exit, Stop> {
    let mut attached = context.attach(&args.sandbox)?;
    attached.act_as(args.acting.user.clone());
    let mut sink = Sink::default();
    attached.read_file(args.path.as_bytes(), &mut sink).map_err(|error| sink.stop(error))?;
    sink.flush()?;
    Ok(Exit::SUCCESS)
}

fn document(context: &Context, args: Args) -> Result<Exit, Stop> {
    let path =
        args.path.into_string().map_err(|_| Error::invalid("path", "is not UTF-8, which JSON needs"))?;
    let engine = context.engine()?;
    let sandbox_id = context.sandbox(&engine, &args.sandbox)?;
    let input = fs_read::Input { sandbox_id, path, max_bytes: Some(JSON_MAX), user: args.acting.user };
    stdout::json(&engine.perform(context.call()?, input)?)?;
    Ok(Exit::SUCCESS)
}
