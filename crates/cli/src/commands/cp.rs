//! `coracle cp`: copies files and directories between a sandbox and this machine.
//!
//! A copy is complete or absent, and keeps everything in a directory: links as links, permissions, times, empty
//! directories. What cannot be kept is an error before anything has changed.

mod ending;
mod into;
mod local;
mod out;
mod source;
mod tree;

use std::ffi::OsString;
use std::io::Write;

use coracle::{Error, NewFile};
use coracle_engine::Attached;
use serde::Serialize;

use crate::args::{ActingArgs, CopyPath};
use crate::context::Context;
use crate::exit::Exit;
use crate::stderr;
use crate::stdout::{self, Sink};
use crate::stop::Stop;
use ending::{Ending, Watched};
use tree::Special;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// A local path, SBX:PATH, or - for standard input
    #[arg(value_name = "FROM")]
    from: OsString,
    /// A local path, SBX:PATH, or - for standard output; a directory that is there gets the copy inside
    #[arg(value_name = "TO")]
    to: OsString,
    #[command(flatten)]
    acting: ActingArgs,
    /// Leave out what cannot be kept: pipes, sockets, devices, set-user-id and set-group-id bits
    #[arg(long)]
    skip_special: bool,
}

/// The result of a copy.
#[derive(Debug, Default, Serialize)]
struct Copied {
    files: u64,
    bytes: u64,
    /// What could not be kept.
    skipped: Vec<String>,
}

impl Copied {
    fn count(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

/// One copy.
#[derive(Debug)]
struct Copy<'a> {
    attached: Attached,
    special: Special,
    ending: &'a Ending,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let ending = Ending::default();
    let copied = copy(context, args, &ending);
    match ending.signal() {
        Some(signal) if copied.is_err() => Ok(Exit::of_signal(signal)),
        _ => copied,
    }
}

fn copy(context: &Context, args: Args, ending: &Ending) -> Result<Exit, Stop> {
    let special = if args.skip_special { Special::Skip } else { Special::Refuse };
    let paths = (context.copy_path(args.from)?, context.copy_path(args.to)?);
    let attach = |sandbox| -> Result<_, Error> {
        let mut attached = context.attach(sandbox)?;
        attached.act_as(args.acting.user.clone());
        Ok(attached)
    };
    let copying = |sandbox| Ok::<_, Error>(Copy { attached: attach(sandbox)?, special, ending });
    let copied = match &paths {
        (CopyPath::Local(from), CopyPath::Inside { sandbox, path }) => {
            into::copy(&mut copying(sandbox)?, from, path)?
        }
        (CopyPath::Inside { sandbox, path }, CopyPath::Local(to)) => {
            out::copy(&mut copying(sandbox)?, path, to)?
        }
        (CopyPath::Stream, CopyPath::Inside { sandbox, path }) => {
            let mut input = std::io::stdin().lock();
            let mut source = Watched::new(&mut input, ending);
            attach(sandbox)?.write_file(&NewFile::at(path.as_slice()), &mut source)?;
            Copied { files: 1, bytes: source.bytes, ..Copied::default() }
        }
        (CopyPath::Inside { sandbox, path }, CopyPath::Stream) => {
            let mut sink = Sink::default();
            attach(sandbox)?.read_file(path, &mut sink).map_err(|error| sink.stop(error))?;
            sink.flush()?;
            return Ok(Exit::SUCCESS);
        }
        (CopyPath::Local(_) | CopyPath::Stream, CopyPath::Local(_) | CopyPath::Stream)
        | (CopyPath::Inside { .. }, CopyPath::Inside { .. }) => {
            let error = Error::invalid("cp", "takes one place in a sandbox and one here");
            return Err(error
                .hint("write a place in a sandbox as `SBX:PATH`, and a local path with a colon as `./a:b`")
                .into());
        }
    };
    match context.json {
        true => stdout::json(&copied)?,
        false => copied.skipped.iter().for_each(|what| stderr::note(&format!("{what}; it was left out"))),
    }
    Ok(Exit::SUCCESS)
}

/// Returns a temporary name for something that is not complete.
fn temporary_name() -> Result<String, Error> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)
        .map_err(|error| Error::internal("could not draw a number", std::io::Error::other(error)))?;
    Ok(format!(".coracle-{:016x}", u64::from_ne_bytes(random)))
}

/// Appends a name to a path.
fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    match name {
        b"" => path.to_vec(),
        name => [path.strip_suffix(b"/").unwrap_or(path), b"/", name].concat(),
    }
}
