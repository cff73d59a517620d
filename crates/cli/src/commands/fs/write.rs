//! `coracle fs write`: writes standard input to a file; the old file stays until the new one is complete.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use coracle::NewFile;
use coracle_engine::ops::sandbox::fs_write;
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
    /// Refuse to replace an existing file
    #[arg(long)]
    no_overwrite: bool,
    /// Set these permissions, as in 0755, instead of those the file had
    #[arg(long, value_parser = fs_write::parse_mode)]
    mode: Option<u32>,
    #[command(flatten)]
    acting: ActingArgs,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let mut attached = context.attach(&args.sandbox)?;
    attached.act_as(args.acting.user);
    let file =
        NewFile { mode: args.mode, overwrite: !args.no_overwrite, ..NewFile::at(args.path.into_vec()) };
    let path = attached.write_file(&file, &mut std::io::stdin().lock())?;
    if context.json {
        stdout::json(&json!({"ok": true, "path": String::from_utf8_lossy(&path)}))?;
    }
    Ok(Exit::SUCCESS)
}
