//! `coracle fs stat`: one entry; a symlink is not followed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use coracle_engine::files::FileKind;

use crate::args::{ActingArgs, SandboxName};
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{printable, stdout};

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
    let mut attached = context.attach(&args.sandbox)?;
    attached.act_as(args.acting.user);
    let entry = attached.stat(args.path.as_bytes())?;
    if context.json {
        stdout::json(&entry)?;
        return Ok(Exit::SUCCESS);
    }
    let kind = match entry.kind {
        FileKind::File => "file",
        FileKind::Dir => "dir",
        FileKind::Symlink => "symlink",
        FileKind::Other => "other",
    };
    let path = printable::line(&entry.path);
    stdout::line(&format!("{kind} {} {} {} {path}", entry.mode, entry.size, entry.mtime_unix))?;
    Ok(Exit::SUCCESS)
}
