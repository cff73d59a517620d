//! Everything that is measured, and the roll-call. A case whose tool is not here is absent, with the reason.

pub mod apart;
mod base;
mod bwrap;
mod coracle;
mod crun;
mod direct;
mod docker;
pub mod name;
mod process;

use std::path::Path;

use anyhow::Result;

use crate::case::Case;

/// A case that cannot be measured here, and why.
pub type Absent = (&'static str, String);

/// What came to the start and what did not.
#[derive(Default)]
pub struct LineUp {
    pub cases: Vec<Box<dyn Case>>,
    pub absent: Vec<Absent>,
}

impl LineUp {
    /// Adds a case, or the reason it is not there.
    fn add<C: Case + 'static>(&mut self, name: &'static str, case: Result<C>) {
        match case {
            Ok(case) => self.cases.push(Box::new(case)),
            Err(reason) => self.absent.push((name, format!("{reason:#}"))),
        }
    }
}

/// Prepares every case in a directory of its own that outlives the measurement.
pub fn assemble(workshop: &Path, filter: &str) -> Result<LineUp> {
    let nothing = base::static_true(workshop)?;
    let mut line_up = LineUp::default();
    line_up.add(name::BASE, base::case(&nothing));
    line_up.add(name::DIRECT_WRITE, Ok(direct::Write::new(workshop)));
    line_up.add(name::BWRAP, bwrap::case());
    line_up.add(name::CRUN, crun::case(workshop, &nothing));
    docker::add(&mut line_up, workshop, &nothing);
    coracle::add(&mut line_up, workshop, &nothing);
    line_up.cases.retain(|case| case.name() == name::BASE || case.name().contains(filter));
    Ok(line_up)
}
