//! `coracle keeper`: serves the network of one sandbox until the sandbox is gone. Coracle starts it; people do not.

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
/// The capability to ignore file permissions.
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
    engine.egress().keep_here(sandbox, Body::Process, || {
        // Fails if the process that started this keeper is gone; the sandbox still exists.
        let _ = keepers::say_ready();
    })
}

/// Gives up everything inherited from the process that started it: descriptors, terminal, rights.
fn leave_home(context: &Context) -> Result<(), Error> {
    let failed = |error| Error::internal("could not become a keeper", error);
    spawn::close_from(STDERR + 1).map_err(failed)?;
    rustix::process::setsid().map_err(|error| failed(error.into()))?;
    // A connection takes four descriptors, and the inherited soft limit is often too low for all.
    let files = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: files, maximum: files });
    rustix::thread::set_no_new_privs(true).map_err(|error| failed(error.into()))?;
    if rustix::process::geteuid().is_root() {
        let owner = std::fs::metadata(context.config()?.home.path()).map_err(failed)?.uid();
        // The directories belong to us, so no capability is needed; root in another user's home needs one.
        let kept = if owner == 0 { 0 } else { DAC_OVERRIDE };
        // Root of a container may lack the right to do this, and has less to lose then.
        let _ = capability::bound(kept);
        capability::keep(kept).map_err(failed)?;
    }
    Ok(())
}
