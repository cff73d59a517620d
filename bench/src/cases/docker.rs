//! Docker by its command line: one-shot, exec, and a file by its archive API.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use coracle_tests::engines::Engine;

use super::dockerd::MaybeDockerd;
use super::process::Process;
use super::{LineUp, complaint, direct, image, name};
use crate::case::{Case, Pace};
use crate::workshop::Workshop;

const CONTAINER: &str = "coracle-bench-open";
const CASES: [&str; 3] = [name::DOCKER_RUN, name::DOCKER_EXEC, name::DOCKER_ARCHIVE];

/// Adds the cases, or one reason for all of them.
pub fn add(line_up: &mut LineUp, workshop: &Workshop, dockerd: &MaybeDockerd) {
    let dockerd = dockerd.as_ref().map_err(|reason| anyhow!("{reason:#}"));
    let prepared = dockerd.and_then(|dockerd| prepare(workshop, dockerd).map(|()| dockerd));
    let dockerd = match prepared {
        Ok(dockerd) => dockerd,
        Err(reason) => return line_up.is_absent(&CASES, &reason),
    };
    let file = workshop.path("kibibyte").to_string_lossy().into_owned();
    let target = format!("{CONTAINER}:/file");
    let words: [&[&str]; 3] = [
        &["run", "--rm", "--network", "none", image::NAME, "/true"],
        &["exec", CONTAINER, "/true"],
        &["cp", &file, &target],
    ];
    for (name, words) in CASES.into_iter().zip(words) {
        let case = Process::slow(name, dockerd.client(words));
        line_up.add(name, case.map(|process| Docker { process, _dockerd: Rc::clone(dockerd) }));
    }
}

/// Brings the image, and starts a container that stays.
fn prepare(workshop: &Workshop, dockerd: &Engine) -> Result<()> {
    std::fs::write(workshop.path("kibibyte"), direct::CONTENTS)?;
    // Some callers start an image by its own command.
    let mut import = dockerd.client(["import", "--change", "CMD [\"/bin/sh\"]"]);
    complaint::run(import.arg(image::archive(workshop)?).arg(image::NAME))?;
    let run = ["run", "--detach", "--name", CONTAINER, "--network", "none", image::NAME, "/wait"];
    complaint::run(&mut dockerd.client(run)).map(drop)
}

/// A case that keeps the engine running.
struct Docker {
    process: Process,
    _dockerd: Rc<Engine>,
}

impl Case for Docker {
    fn name(&self) -> &'static str {
        self.process.name()
    }

    fn paces(&self) -> &'static [Pace] {
        self.process.paces()
    }

    fn once(&mut self) -> Result<Duration> {
        self.process.once()
    }
}
