//! The command line: what is written is decoded here, one file for each verb, and carried out by the engine.
//!
//! Standard output is data and standard error is talk. With `--json` exactly one document is printed, an error
//! included; only `logs` prints one for each chunk. Output of commands is passed on byte by byte, to terminals too:
//! what a command prints may move the cursor. Whatever coracle itself says has its control characters escaped.

mod args;
mod commands;
mod context;
mod exit;
mod input;
mod live;
mod missing;
mod printable;
mod session;
mod signals;
mod stderr;
mod stdout;
mod stop;
mod sweep;
mod table;
mod terminal;
mod usage;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser};
use coracle::config::Flags;
use coracle::{Epoch, RunId};

use self::commands::Verb;
use self::context::Context;
use self::exit::Exit;
use self::stop::Stop;

/// Run code in sandboxes that belong to exactly one run at a time
#[derive(Debug, Parser)]
#[command(name = "coracle", version, max_term_width = 100, after_help = exit::HELP)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// Flags of every verb, before or after it.
#[derive(Debug, Args)]
struct Global {
    /// Act as this run; also CORACLE_RUN; by default a run of your own
    #[arg(long, global = true, value_name = "RUN")]
    run: Option<RunId>,
    /// Insist on this epoch of the lease; also CORACLE_EPOCH
    #[arg(long, global = true, value_name = "N")]
    epoch: Option<u64>,
    /// Keep all state in this directory; also CORACLE_HOME
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Print one JSON document, errors included
    #[arg(long, global = true)]
    json: bool,
}

/// Carries out one call and returns its exit code.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    let json = usage::asks_for_json(&arguments);
    match Cli::try_parse_from(arguments) {
        Ok(cli) => execute(cli).into(),
        Err(error) => usage::explain(&error, json).into(),
    }
}

fn execute(cli: Cli) -> Exit {
    let json = cli.global.json;
    let context = Context::new(cli.global.into(), json);
    match cli.verb.carry_out(&context) {
        Ok(exit) => exit,
        Err(Stop::Unheard) => Exit::SUCCESS,
        Err(Stop::Failed(error)) => {
            match json {
                true => stdout::error(&error),
                false => stderr::error(&error),
            }
            Exit::of_error(&error)
        }
    }
}

impl From<Global> for Flags {
    fn from(global: Global) -> Self {
        Self { home: global.home, run: global.run, epoch: global.epoch.map(Epoch) }
    }
}
