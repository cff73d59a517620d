//! The Docker that the cases share, started by the harness of the tests, with its own socket, data, network and
//! processes. It leaves nothing behind.

use std::process::Command;
use std::rc::Rc;

use anyhow::Result;
use coracle_tests::engines::{Containers, Engine, Kind, Storage};

use super::complaint;
use crate::workshop::Workshop;

/// A running engine, or the reason there is none.
pub type MaybeDockerd = Result<Rc<Engine>>;

/// Starts an engine that keeps its files where users have theirs.
pub fn start(workshop: &Workshop) -> MaybeDockerd {
    workshop.wants_slow_peers()?;
    complaint::run(Command::new("dockerd").arg("--version"))?;
    Ok(Rc::new(Engine::start(Kind::Docker, Storage::Disk, Containers::End)?))
}
