//! Keepers as processes of their own: they have to outlive the call that starts them.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coracle::{Error, Result, SandboxId};
use coracle_engine::Engine;
use coracle_engine::egress::Start;

/// What this process is an execution of, also if somebody has replaced the file since.
const OURSELVES: &str = "/proc/self/exe";

/// Starts this binary again, as a keeper.
#[derive(Debug)]
pub struct Processes {
    pub home: PathBuf,
}

impl Start for Processes {
    fn start(&self, _: &Engine, sandbox: &SandboxId, _: &Path) -> Result<()> {
        let failed =
            |error| Error::internal(format!("could not start the keeper of sandbox `{sandbox}`"), error);
        let mut keeper = Command::new(OURSELVES)
            .arg0("coracle")
            .args(["keeper", sandbox.as_str(), "--home"])
            .arg(&self.home)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        // It writes a byte when it serves, and closes this when it has ended or has something better to do.
        let told = keeper.stdout.take().map(|mut stdout| stdout.read(&mut [0; 1]));
        // We are its parent until we end, and it may end before us.
        std::thread::spawn(move || keeper.wait());
        told.transpose().map(drop).map_err(failed)
    }
}
