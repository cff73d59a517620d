//! Everything that is measured in its own way, and the roll-call.

mod churn;
mod crowd;
mod door;
mod engine;
mod fork;
mod growth;
mod http;
mod memory;
mod nap;
mod sessions;

use anyhow::Result;

use crate::cases::dockerd::MaybeDockerd;
use crate::cases::{Absent, LineUp};
use crate::measured::Measured;
use crate::study::Study;
use crate::workshop::Workshop;

/// Adds every study. Those with an engine come first: it is gone before memory is counted.
pub fn add(line_up: &mut LineUp, workshop: &Workshop, dockerd: &MaybeDockerd) {
    for library in [&sessions::AUTOGEN, &sessions::LLM_SANDBOX] {
        add_one(line_up, library.names, library.study(workshop, dockerd));
    }
    add_one(line_up, engine::NAMES, engine::Side::new(workshop, dockerd));
    add_one(line_up, door::NAMES, Ok(door::Door));
    add_one(line_up, http::NAMES, Ok(http::Http::new(workshop)));
    add_one(line_up, fork::NAMES, fork::Fork::new(workshop));
    add_one(line_up, nap::NAMES, nap::Nap::new(workshop));
    add_one(line_up, churn::NAMES, Ok(churn::Churn::new(workshop)));
    for storage in memory::STORAGES {
        add_one(line_up, storage.names, Ok(memory::Memory::new(workshop, storage)));
    }
    add_one(line_up, growth::NAMES, Ok(growth::Growth::new(workshop)));
}

fn add_one<S: Study + 'static>(line_up: &mut LineUp, names: &[&'static str], study: Result<S>) {
    match study {
        Ok(study) => line_up.studies.push(Box::new(study)),
        Err(reason) => line_up.is_absent(names, &reason),
    }
}

/// Carries out one study after the other and returns those that failed, with the reason.
pub fn carry_out(studies: Vec<Box<dyn Study>>, measured: &mut Measured) -> Vec<Absent> {
    let mut failed = Vec::new();
    for study in studies {
        let names = study.names();
        if let Err(reason) = study.carry_out(measured) {
            println!("Could not measure: {}, {reason:#}.", names.join(", "));
            failed.extend(names.iter().map(|name| (*name, format!("{reason:#}"))));
        }
    }
    failed
}
