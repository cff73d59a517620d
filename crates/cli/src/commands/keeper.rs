//! `coracle keeper`: holds the network of one sandbox until that is gone. Nobody types this.

use std::os::unix::fs::MetadataExt;

use coracle::{Error, SandboxId};
use coracle_engine::egress::keeper::Body;
use coracle_sys::{capability, spawn};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::context::Context;
use crate::exit::Exit;
use crate::keepers;
use crate::stop::Stop;

const STDERR: u32 = 2;
/// Passing by the permissions of files.
const DAC_OVERRIDE: u64 = 1 << 1;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxId,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    match keep(context, &args.sandbox) {
        Ok(()) => Ok(Exit::SUCCESS),
        Err(error) => {
            keepers::say_why_not(&error)?;
            Ok(Exit::of_error(&error))
        }
    }
}

fn keep(context: &Context, sandbox: &SandboxId) -> Result<(), Error> {
    leave_home(context)?;
    let engine = context.untouched_engine()?;
    engine.keep_here(sandbox, Body::Process, || {
        // Whoever waits is gone then, and the sandbox is still there.
        let _ = keepers::say_ready();
    })
}

/// Lets go of everything that belongs to whoever started it: their descriptors, their terminal, their rights.
fn leave_home(context: &Context) -> Result<(), Error> {
    let failed = |error| Error::internal("could not become a keeper", error);
    spawn::close_from(STDERR + 1).map_err(failed)?;
    rustix::process::setsid().map_err(|error| failed(error.into()))?;
    // A connection takes four descriptors, and what whoever started it may open is often not enough for all.
    let files = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: files, maximum: files });
    rustix::thread::set_no_new_privs(true).map_err(|error| failed(error.into()))?;
    if rustix::process::geteuid().is_root() {
        let owner = std::fs::metadata(context.config()?.home.path()).map_err(failed)?.uid();
        // The directories are ours, and for that no capability is needed; root in somebody else's home needs one.
        let kept = if owner == 0 { 0 } else { DAC_OVERRIDE };
        // Root of a container may lack what this takes, and has then less to lose.
        let _ = capability::bound(kept);
        capability::keep(kept).map_err(failed)?;
    }
    Ok(())
}
