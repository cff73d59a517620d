//! `coracle repo add`: makes a repository, empty or with what another one has.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

use coracle::{Error, Kind};
use coracle_core::repo::RepoName;
use coracle_engine::ops::repo::add;
use coracle_engine::ops::repo::errand::is_url;

use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

/// What a bundle begins with.
const BUNDLE: &[u8] = b"# v";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name to give it
    #[arg(value_name = "NAME")]
    name: RepoName,
    /// Take branches and tags from here: a directory, a git bundle (`-` for standard input) or an https URL
    #[arg(value_name = "PATH|URL|BUNDLE")]
    from: Option<String>,
    /// Take the password for the URL from this environment variable
    #[arg(long, value_name = "VARIABLE")]
    token: Option<String>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let token = args.token.as_deref().map(coracle::config::variable).transpose()?;
    let made = match args.from.as_deref().map(source).transpose()? {
        Some(Source::Bundle(file)) => {
            let call = context.call()?;
            let repo = engine.repositories().add_from(&call.caller, &args.name, file.into(), &call.cancel)?;
            engine.perform(call, coracle_engine::ops::repo::get::Input { repo: repo.id.to_string() })?.repo
        }
        Some(Source::Elsewhere(from)) => {
            engine.perform(context.call()?, add::Input { name: args.name, from: Some(from), token })?
        }
        None => engine.perform(context.call()?, add::Input { name: args.name, from: None, token: None })?,
    };
    match context.json {
        true => stdout::json(&made)?,
        false => stdout::line(made.repo_id.as_str())?,
    }
    Ok(Exit::SUCCESS)
}

/// Where branches and tags come from.
enum Source {
    Bundle(File),
    /// A URL, or the whole path of a directory.
    Elsewhere(String),
}

fn source(text: &str) -> Result<Source, Error> {
    if is_url(text) {
        return Ok(Source::Elsewhere(text.to_owned()));
    }
    let refused = |error| Error::new(Kind::Invalid, format!("could not open `{text}`")).caused_by(error);
    if text == "-" {
        // Opening `/dev/stdin` again takes a right to the file that its first opener had, and we may not.
        let input = std::io::stdin().as_fd().try_clone_to_owned().map_err(refused)?;
        return Ok(Source::Bundle(input.into()));
    }
    let path = std::fs::canonicalize(Path::new(text)).map_err(refused)?;
    if path.is_dir() {
        let whole = path.into_os_string().into_string();
        return whole.map(Source::Elsewhere).map_err(|_| Error::invalid("from", "is not UTF-8"));
    }
    let mut beginning = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(BUNDLE.len() as u64).read_to_end(&mut beginning));
    read.map_err(refused)?;
    match beginning == BUNDLE {
        true => File::open(&path).map(Source::Bundle).map_err(refused),
        false => Err(Error::invalid("from", "is neither a directory nor a git bundle")),
    }
}
