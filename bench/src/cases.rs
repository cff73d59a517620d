//! Everything that is measured side by side, and the roll-call. A case whose tool is not here is absent, with the reason.

pub mod apart;
mod base;
mod bwrap;
mod cgroups;
mod cli;
pub mod complaint;
mod coracle;
mod crun;
mod direct;
mod docker;
pub mod dockerd;
pub mod image;
pub mod name;
mod oci;
mod podman;
mod process;
pub mod python;
mod runc;

use anyhow::Result;

use crate::case::Case;
use crate::studies;
use crate::study::Study;
use crate::workshop::Workshop;

/// What cannot be measured here, and why.
pub type Absent = (&'static str, String);

/// What came to the start and what did not.
#[derive(Default)]
pub struct LineUp {
    pub cases: Vec<Box<dyn Case>>,
    pub studies: Vec<Box<dyn Study>>,
    pub absent: Vec<Absent>,
}

impl LineUp {
    /// Adds a case, or the reason it is not there.
    fn add<C: Case + 'static>(&mut self, name: &'static str, case: Result<C>) {
        match case {
            Ok(case) => self.cases.push(Box::new(case)),
            Err(reason) => self.is_absent(&[name], &reason),
        }
    }

    /// Notes one reason for all of these.
    pub fn is_absent(&mut self, names: &[&'static str], reason: &anyhow::Error) {
        self.absent.extend(names.iter().map(|name| (*name, format!("{reason:#}"))));
    }

    /// Leaves out cases that do not match the filter.
    fn keep(&mut self, filter: &str) {
        self.cases.retain(|case| case.name() == name::BASE || case.name().contains(filter));
        self.studies.retain(|study| study.names().iter().any(|name| name.contains(filter)));
        self.absent.retain(|(name, _)| name.contains(filter));
    }
}

/// Prepares everything in the workshop.
pub fn assemble(workshop: &Workshop, filter: &str) -> LineUp {
    let mut line_up = LineUp::default();
    line_up.add(name::BASE, base::case(workshop));
    for before in [direct::Before::AnotherVersion, direct::Before::Nothing] {
        line_up.cases.push(Box::new(direct::Write::new(workshop, before)));
    }
    line_up.add(name::BWRAP, bwrap::case());
    oci::add(&mut line_up, workshop, &crun::RUNTIME);
    oci::add(&mut line_up, workshop, &runc::RUNTIME);
    podman::add(&mut line_up, workshop);
    let dockerd = dockerd::start(workshop);
    docker::add(&mut line_up, workshop, &dockerd);
    coracle::add(&mut line_up, workshop);
    cli::add(&mut line_up, workshop);
    python::add(&mut line_up, workshop);
    studies::add(&mut line_up, workshop, &dockerd);
    line_up.keep(filter);
    line_up
}
