//! `coracle cp`: copies files and directories between a sandbox and here, one of the two being a sandbox.
//!
//! Regular files and the directories they are in; links and devices are left out and named.

mod into;
mod out;

use std::ffi::OsString;

use coracle::Error;
use serde::Serialize;

use crate::cli::args::Place;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stop::Stop;
use crate::cli::{stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// A local path, or SBX:PATH
    #[arg(value_name = "FROM")]
    from: OsString,
    /// A local path, or SBX:PATH; a directory that is there gets the copy inside
    #[arg(value_name = "TO")]
    to: OsString,
}

/// What was copied.
#[derive(Debug, Default, Serialize)]
struct Copied {
    files: u64,
    bytes: u64,
    /// Links, devices and others that are no files.
    skipped: Vec<String>,
}

impl Copied {
    fn count(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let places = (Place::try_from(args.from)?, Place::try_from(args.to)?);
    let copied = match &places {
        (Place::Local(from), Place::Inside { sandbox, path }) => {
            into::copy(&mut context.attach(sandbox)?, from, path)?
        }
        (Place::Inside { sandbox, path }, Place::Local(to)) => {
            out::copy(&mut context.attach(sandbox)?, path, to)?
        }
        (Place::Local(_), Place::Local(_)) | (Place::Inside { .. }, Place::Inside { .. }) => {
            let error = Error::invalid("cp", "takes one place in a sandbox and one here");
            return Err(error
                .hint("write a place in a sandbox as `SBX:PATH`, and a local path with a colon as `./a:b`")
                .into());
        }
    };
    match context.json {
        true => stdout::json(&copied)?,
        false => copied
            .skipped
            .iter()
            .for_each(|path| stderr::note(&format!("`{path}` is no file and was left out"))),
    }
    Ok(Exit::SUCCESS)
}

/// Puts a name behind a path.
fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    [path.strip_suffix(b"/").unwrap_or(path), b"/", name].concat()
}
