//! The `coracle` binary: the command line on top of the library.

mod audit;
mod cli;
mod http;
mod mcp;
mod telemetry;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(std::env::args_os().collect())
}
