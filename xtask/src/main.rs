//! Development tasks, run as `cargo xtask VERB`. One file per verb.
#![allow(clippy::print_stdout, reason = "a task talks to the person who started it")]

mod against;
mod attack;
mod bench;
mod cargo;
mod ci;
mod fuzz;
mod packages;
mod suites;
mod test;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
Usage: cargo xtask VERB

  test [--full] [FILTER]   run every test; on Debian as root, install what the tests need first
  attack [--full] [ROW]    try every attack on a sandbox and on a weakened twin, and report what held
  bench [ARGS]             measure against the floor and the peers (`bench --help` lists ARGS)
  bench --against REVISION [CASE]...
                           measure an older revision and this one in turns; fail if one of ours got slower
  tidy                     check format, lints, the rules of the house, the direction of crates, licences
  ci                       tidy, then test with nothing skipped
  fuzz [SECONDS]           run every fuzz target for that long

CORACLE_REQUIRE=native,docker makes a missing need a failure instead of a skip; `all` names every need.";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) =
        arguments.split_first().map_or(("help", &[][..]), |(verb, rest)| (verb.as_str(), rest));
    match verb {
        "test" => test::run(rest),
        "attack" => attack::run(rest),
        "bench" => bench::run(rest),
        "tidy" => tidy::run(),
        "ci" => ci::run(),
        "fuzz" => fuzz::run(rest),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(())
        }
        unknown => bail!("unknown verb `{unknown}`\n\n{HELP}"),
    }
}
