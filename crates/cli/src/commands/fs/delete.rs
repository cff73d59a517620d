//! `coracle fs delete`: removes a file, or with `--recursive` a directory. A symlink is removed, not followed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use crate::args::{ActingArgs, SandboxName};
use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    path: OsString,
    /// Delete a directory and what is in it
    #[arg(long, short)]
    recursive: bool,
    #[command(flatten)]
    acting: ActingArgs,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let mut attached = context.attach(&args.sandbox)?;
    attached.act_as(args.acting.user);
    attached.delete(args.path.as_bytes(), args.recursive.into())?;
    if context.json {
        stdout::json(&json!({"ok": true, "deleted": args.path.to_string_lossy()}))?;
    }
    Ok(Exit::SUCCESS)
}
