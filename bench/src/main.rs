//! Measures coracle beside the floor and its peers, and holds the goals against the numbers.
//!
//! Machines are noisy: only ratios of medians taken in one run, in random order, mean anything.
#![allow(clippy::print_stdout, reason = "the table is what the program is for")]

mod arguments;
mod case;
mod cases;
mod goals;
mod machine;
mod measured;
mod programs;
mod report;
mod schedule;
mod statistics;
mod studies;
mod study;
mod workshop;

use anyhow::{Result, ensure};

use self::arguments::Arguments;
use self::cases::LineUp;
use self::machine::Machine;
use self::report::Report;
use self::workshop::Workshop;

fn main() -> Result<()> {
    if std::env::args_os().nth(1).is_some_and(|word| word == cases::apart::WITHIN) {
        return cases::apart::serve();
    }
    match Arguments::parse(std::env::args().skip(1))? {
        Some(arguments) => run(&arguments),
        None => Ok(()),
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let machine = Machine::look_at();
    print!("{}", machine.describe());
    let workshop = Workshop::new(arguments)?;
    let LineUp { cases, studies, mut absent } = cases::assemble(&workshop, &arguments.filter);
    print!("{}", report::absence(&absent));

    let mut measured = schedule::run(cases, arguments.rounds)?;
    let broken = studies::carry_out(studies, &mut measured);
    let is_whole = broken.is_empty();
    absent.extend(broken);
    let verdicts = goals::judge(&measured);

    let report = Report { machine: &machine, measured: &measured, verdicts: &verdicts, absent: &absent };
    print!("{}", report.table());
    println!("Written to `{}`.", report.write(arguments.json.as_deref())?.display());
    ensure!(is_whole, "something could not be measured");
    let missed = arguments.check && verdicts.iter().any(|verdict| verdict.is_missed());
    ensure!(!missed, "a goal that is due was missed");
    Ok(())
}
