//! `coracle image build`: builds an image from a Dockerfile. Output of the steps goes to standard error, the name to
//! standard output.

use std::path::{Path, PathBuf};

use coracle::{Error, Kind, Result};
use coracle_core::image::build::RecipeInput;
use coracle_engine::ops::image::build;

use crate::args::{Pair, mebibytes, millicores};
use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory whose files the build may use
    #[arg(value_name = "DIR")]
    context: PathBuf,
    /// Give the image this name
    #[arg(short, long, value_name = "NAME")]
    tag: String,
    /// Use this Dockerfile, which must be in DIR; by default Dockerfile or Containerfile there
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    dockerfile: Option<PathBuf>,
    /// Set a variable the Dockerfile has an ARG for
    #[arg(long, value_name = "NAME=VALUE")]
    build_arg: Vec<Pair>,
    /// Build this stage
    #[arg(long, value_name = "STAGE")]
    target: Option<String>,
    /// Do every step again
    #[arg(long)]
    no_cache: bool,
    /// Allow each step this much memory, as in 2g
    #[arg(long, value_name = "SIZE", value_parser = mebibytes)]
    memory: Option<u64>,
    /// Allow each step this many CPUs, as in 0.5
    #[arg(long, value_name = "N", value_parser = millicores)]
    cpus: Option<u64>,
    /// Build it for this backend
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let input = input(args)?;
    let built = context.engine()?.perform(context.call()?, input)?;
    match context.json {
        true => stdout::json(&built)?,
        false => stdout::line(&built.image.reference)?,
    }
    Ok(Exit::SUCCESS)
}

fn input(args: Args) -> Result<build::Input> {
    let directory = absolute("context", &args.context)?;
    let dockerfile = args.dockerfile.map(|file| inside(&directory, &file)).transpose()?;
    Ok(build::Input {
        recipe: RecipeInput {
            context: text("context", &directory)?,
            dockerfile,
            tag: args.tag,
            build_args: args.build_arg.into_iter().map(|pair| (pair.name, pair.value)).collect(),
            target: args.target,
            no_cache: args.no_cache,
            cpu_millicores: args.cpus,
            memory_mb: args.memory,
        },
        backend: args.backend,
    })
}

/// Returns the path of a file relative to the context.
fn inside(directory: &Path, file: &Path) -> Result<String> {
    let parent = absolute("dockerfile", file.parent().filter(|path| *path != "").unwrap_or(Path::new(".")))?;
    let name = file.file_name().ok_or_else(|| Error::invalid("dockerfile", "names no file"))?;
    let whole = parent.join(name);
    let below = whole.strip_prefix(directory).map_err(|_| {
        let problem = format!("is `{}`, which is not in `{}`", file.display(), directory.display());
        Error::invalid("dockerfile", problem).hint("copy it into the directory, or build from one above both")
    })?;
    text("dockerfile", below)
}

fn absolute(field: &str, path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|error| {
        Error::new(Kind::Invalid, format!("could not find `{}`", path.display()))
            .detail("field", field)
            .caused_by(error)
    })
}

fn text(field: &str, path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| Error::invalid(field, "is not UTF-8"))?;
    Ok(text.to_owned())
}
