//! podman with runc, in a root of its own and out of sight of any other podman on the machine.

use std::process::Command;
use std::rc::Rc;

use anyhow::Result;

use super::apart::{Apart, Namespace};
use super::{LineUp, cgroups, complaint, image, name};
use crate::case::{Case, Pace};
use crate::workshop::Workshop;

/// Locks and the state of runtimes lie here, whatever the flags say.
const PREPARATION: &str = "mount -t tmpfs none /dev/shm && mount -t tmpfs none /run";
/// podman asks for more than it may have where its own limits are lower than its defaults.
const LIMITS: [&str; 4] = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];

/// Adds both cases, or one reason for both.
pub fn add(line_up: &mut LineUp, workshop: &Workshop) {
    match prepare(workshop) {
        Ok(cases) => line_up.cases.extend(cases.map(|case| Box::new(case) as Box<dyn Case>)),
        Err(reason) => line_up.is_absent(&[name::PODMAN_RUN, name::PODMAN_EXEC], &reason),
    }
}

fn prepare(workshop: &Workshop) -> Result<[Podman; 2]> {
    workshop.wants_slow_peers()?;
    complaint::run(Command::new("podman").arg("--version"))?;
    let archive = image::archive(workshop)?;
    let group = Rc::new(Group(format!("{}-podman", workshop.unique_name())));
    let namespace = Namespace::new(PREPARATION)?;
    let mut import = podman(workshop, &["import"]);
    import.arg(archive).arg(image::NAME);
    namespace.borrow_mut().prepare(&import)?;
    let run = |words: &[&str]| {
        let mut command = podman(workshop, &["run", "--network", "none", "--cgroup-parent", &group.0]);
        command.args(LIMITS).args(words);
        command
    };
    namespace.borrow_mut().prepare(&run(&["--detach", "--name", "open", image::NAME, "/wait"]))?;
    let case = |name, command, at_end| -> Result<Podman> {
        let apart = Apart { name, paces: &[Pace::Own], namespace: Rc::clone(&namespace), command, at_end };
        Ok(Podman { apart: apart.tried()?, _group: Rc::clone(&group) })
    };
    let remove = podman(workshop, &["rm", "--force", "--time", "0", "open"]);
    Ok([
        case(name::PODMAN_RUN, run(&["--rm", image::NAME, "/true"]), None)?,
        case(name::PODMAN_EXEC, podman(workshop, &["exec", "open", "/true"]), Some(remove))?,
    ])
}

fn podman(workshop: &Workshop, words: &[&str]) -> Command {
    let mut command = Command::new("podman");
    for (flag, directory) in [("--root", "podman"), ("--runroot", "podman-run"), ("--tmpdir", "podman-tmp")] {
        command.arg(flag).arg(workshop.path(directory));
    }
    command.args(["--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "none"]);
    command.args(["--storage-driver", "overlay"]).args(words);
    command
}

/// A case, and behind it the cgroups that go with the last one: fields are dropped in their order.
struct Podman {
    apart: Apart,
    _group: Rc<Group>,
}

struct Group(String);

impl Drop for Group {
    fn drop(&mut self) {
        cgroups::remove(&self.0);
    }
}

impl Case for Podman {
    fn name(&self) -> &'static str {
        self.apart.name()
    }

    fn paces(&self) -> &'static [Pace] {
        self.apart.paces()
    }

    fn once(&mut self) -> Result<std::time::Duration> {
        self.apart.once()
    }
}
