//! `coracle close`: destroys sandboxes. Closing an ended one succeeds.

use coracle_engine::ops::sandbox::close;

use crate::args::SandboxName;
use crate::context::Context;
use crate::exit::Exit;
use crate::for_each::each;
use crate::stderr;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name sandboxes by their ids, their keys, or the beginnings of their ids
    #[arg(value_name = "SBX", required = true)]
    sandboxes: Vec<SandboxName>,
    /// Delete the volume the workspace is on, too; a directory of the machine is never deleted
    #[arg(long)]
    delete_workspace: bool,
    /// End the record even if the container engine does not answer, and print what stays there
    #[arg(long)]
    forget: bool,
    // For people who are used to it: running commands never keep a sandbox from being closed.
    #[arg(short, long, hide = true)]
    force: bool,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let Args { delete_workspace, forget, .. } = args;
    let caller = context.caller()?;
    each(context, &args.sandboxes, |engine, sandbox_id| {
        let closed = engine.perform(&caller, close::Input { sandbox_id, delete_workspace, forget })?;
        if !context.json {
            closed.note.iter().for_each(|note| stderr::warning(note));
            closed.left_behind.iter().for_each(|left| stderr::warning(&format!("left behind: {left}")));
        }
        Ok(closed)
    })
}
