//! `coracle image load`: loads the images in an archive.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use coracle::{Error, Kind, Result};
use coracle_engine::ops::image::load;

use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{printable, stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The archive; `-` reads it from standard input
    #[arg(value_name = "FILE")]
    archive: PathBuf,
    /// Load them into this backend
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let archive = open(&args.archive).map_err(|error| {
        Error::new(Kind::Invalid, format!("could not read archive `{}`", args.archive.display()))
            .caused_by(error)
    })?;
    let loaded = load::from_file(&engine, &context.call()?, args.backend.as_deref(), archive)?;
    match context.json {
        true => stdout::json(&loaded)?,
        false => {
            let names = loaded.images.iter().map(|stored| printable::line(&stored.reference) + "\n");
            stdout::bytes(names.collect::<String>().as_bytes())?;
            if loaded.images.is_empty() {
                stderr::note("no image in the archive has a name, so none was kept");
            }
        }
    }
    Ok(Exit::SUCCESS)
}

/// Opens the archive. The backend stores what comes through a pipe, within its bounds.
fn open(path: &Path) -> io::Result<File> {
    match path == Path::new("-") {
        true => Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?)),
        false => File::open(path),
    }
}
