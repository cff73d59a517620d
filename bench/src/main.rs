//! Measures coracle beside the floor and its peers, and holds the goals against the numbers.
//!
//! Machines are noisy: only ratios of medians taken in one run, in random order, mean anything.
#![allow(clippy::print_stdout, reason = "the table is what the program is for")]

mod arguments;
mod case;
mod cases;
mod goals;
mod report;
mod schedule;
mod statistics;

use anyhow::{Result, bail};

use self::arguments::Arguments;

fn main() -> Result<()> {
    if std::env::args_os().nth(1).is_some_and(|word| word == cases::apart::WITHIN) {
        return cases::apart::serve(std::env::args_os().skip(2));
    }
    let Some(arguments) = Arguments::parse(std::env::args().skip(1))? else { return Ok(()) };
    let cpus = std::thread::available_parallelism()?.get() as f64;
    if report::load() > cpus / 2.0 {
        println!(
            "The machine is busy (load {:.1} on {cpus} CPUs): the ratios below are not to be trusted.",
            report::load()
        );
    }
    let workshop = tempfile::tempdir()?;
    let line_up = cases::assemble(workshop.path(), &arguments.filter)?;
    for (name, reason) in &line_up.absent {
        println!("Not measured: {name}, {reason}.");
    }

    let measured = schedule::run(line_up.cases, arguments.rounds)?;
    let verdicts = goals::judge(&measured);

    print!("{}", report::table(&measured, &verdicts));
    let path = report::write(&measured, &verdicts, &line_up.absent)?;
    println!("Written to `{}`.", path.display());
    match arguments.check && verdicts.iter().any(|verdict| verdict.is_missed()) {
        true => bail!("a goal that is due was missed"),
        false => Ok(()),
    }
}
