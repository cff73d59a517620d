//! `coracle mcp install`: writes an entry into the settings of an MCP client, or prints it.

use std::path::PathBuf;

use coracle::config;
use coracle::{Error, Kind, Result};
use serde_json::json;

use crate::args::SpecArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{stderr, stdout};
use coracle_mcp::install::{Client, Entry, Installation, Outcome, Scope};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The client to configure
    #[arg(long, value_enum, value_name = "CLIENT")]
    client: Client,
    /// Whose settings to change
    #[arg(long, value_enum, default_value_t, value_name = "SCOPE")]
    scope: Scope,
    /// Print the entry instead of writing it
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    pub spec: SpecArgs,
}

pub fn carry_out(context: &Context, args: Args, flags: &[String]) -> Result<Exit, Stop> {
    let arguments = std::iter::once("mcp".to_owned()).chain(flags.iter().cloned()).collect();
    let entry = Entry { command: command(args.scope)?, arguments };
    let installation = Installation::new(args.client, args.scope, &directory(args.scope)?, entry);
    let path = installation.path.display().to_string();
    if args.print {
        stderr::note(&format!("this belongs in `{path}`"));
        stdout::bytes(installation.snippet()?.as_bytes())?;
        return Ok(Exit::SUCCESS);
    }
    let outcome = installation.write()?;
    match (context.json, outcome) {
        (true, _) => stdout::json(&json!({"path": path, "written": outcome == Outcome::Written}))?,
        (false, Outcome::Written) => stdout::line(&path)?,
        (false, Outcome::Unchanged) => {
            stderr::note("it says so already");
            stdout::line(&path)?;
        }
    }
    Ok(Exit::SUCCESS)
}

/// Other people on a project have this program elsewhere, so project settings contain only its name.
fn command(scope: Scope) -> Result<String> {
    if scope == Scope::Project || config::is_first_on_path("coracle") {
        return Ok("coracle".to_owned());
    }
    let ourselves = std::env::current_exe()
        .map_err(|error| Error::internal("could not find out where this program is", error))?;
    ourselves.into_os_string().into_string().map_err(|path| {
        Error::new(Kind::Unsupported, format!("the path of this program is not UTF-8: {}", path.display()))
    })
}

fn directory(scope: Scope) -> Result<PathBuf> {
    match scope {
        Scope::User => config::directory_of_user().ok_or_else(|| {
            Error::new(Kind::Invalid, "could not find the settings of the client: `HOME` is not set")
                .hint("use `--scope project`, or `--print`")
        }),
        Scope::Project => std::env::current_dir()
            .map_err(|error| Error::internal("could not find out which directory this is", error)),
    }
}
