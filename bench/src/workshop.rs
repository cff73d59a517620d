//! The directories and settings that all cases share.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::arguments::{Arguments, Peers, Scale};
use crate::programs::Programs;

/// The variable that names the Python in which AutoGen and llm-sandbox are installed.
pub const PYTHON_VARIABLE: &str = "CORACLE_BENCH_PYTHON";

/// A directory that outlives the measurement and goes with it.
pub struct Workshop {
    directory: tempfile::TempDir,
    pub programs: Programs,
    pub scale: Scale,
    pub peers: Peers,
    /// The Python with the peers that are libraries, if there is one.
    pub python: Option<PathBuf>,
}

impl Workshop {
    pub fn new(arguments: &Arguments) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let programs = Programs::compile(directory.path())?;
        let python = std::env::var_os(PYTHON_VARIABLE).map(PathBuf::from);
        Ok(Self { directory, programs, scale: arguments.scale, peers: arguments.peers, python })
    }

    /// Returns a path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Refuses peers that were not asked for.
    pub fn wants_slow_peers(&self) -> Result<()> {
        let asked = (self.peers == Peers::All).then_some(());
        asked.context("`--peers` installs and measures it")
    }

    /// Returns a name that no other benchmark on this machine has.
    pub fn unique_name(&self) -> String {
        format!("coracle-bench-{}", std::process::id())
    }
}
