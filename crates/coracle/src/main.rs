//! The `coracle` binary: the command line on top of the library.

mod cli;
mod http;
mod mcp;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(std::env::args_os().collect())
}
