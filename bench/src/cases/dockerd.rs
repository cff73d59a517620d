//! A Docker engine of the benchmark's own: nobody else's socket, data, network or processes.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{cgroups, complaint};
use crate::workshop::Workshop;

/// It needs one or two seconds on an idle machine.
const START_MAX: Duration = Duration::from_secs(30);
const STOP_MAX: Duration = Duration::from_secs(20);
/// It tells nobody when it is ready, so it is asked.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// A running engine, or the reason there is none.
pub type MaybeDockerd = Result<Rc<Dockerd>>;

/// The engine in namespaces of its own. Its bridge and rules are not the machine's, and all it started ends with it.
pub struct Dockerd {
    /// `unshare`, whose only child is the engine.
    child: Child,
    socket: PathBuf,
    group: String,
}

impl Dockerd {
    pub fn start(workshop: &Workshop) -> MaybeDockerd {
        workshop.wants_slow_peers()?;
        complaint::run(Command::new("dockerd").arg("--version"))?;
        let socket = workshop.path("docker.sock");
        let group = format!("{}-docker", workshop.unique_name());
        let mut command = engine(workshop, &group);
        command.arg("--host").arg(format!("unix://{}", socket.display()));
        let log = File::create(workshop.path("dockerd.log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("`setpriv` cannot be started")?;
        let mut dockerd = Self { child, socket, group };
        dockerd.wait_until_it_answers(workshop)?;
        Ok(Rc::new(dockerd))
    }

    /// Returns a command of the command line that talks to this engine.
    pub fn docker(&self, words: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.env("DOCKER_HOST", self.address()).args(words);
        command
    }

    pub fn address(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    fn wait_until_it_answers(&mut self, workshop: &Workshop) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < START_MAX && self.child.try_wait()?.is_none() {
            if complaint::run(&mut self.docker(&["version"])).is_ok() {
                return Ok(());
            }
            std::thread::sleep(ASK_EVERY);
        }
        let log = std::fs::read_to_string(workshop.path("dockerd.log")).unwrap_or_default();
        bail!("it does not start: {}", log.lines().last().unwrap_or("it says nothing"))
    }

    /// Asks the engine to end its containers and itself.
    fn stop(&mut self) -> Result<()> {
        let unshare = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"))?;
        complaint::run(Command::new("kill").arg("-TERM").args(children.split_whitespace()))?;
        let asked = Instant::now();
        while asked.elapsed() < STOP_MAX && self.child.try_wait()?.is_none() {
            std::thread::sleep(ASK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        // Where asking does not help, the kernel ends everything in its process namespace.
        let _ = self.stop();
        let _ = self.child.kill();
        let _ = self.child.wait();
        cgroups::remove(&self.group);
    }
}

fn engine(workshop: &Workshop, group: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]);
    command.args(["--mount-proc", "dockerd", "--cgroup-parent", group]);
    command.arg("--data-root").arg(workshop.path("docker-data"));
    command.arg("--exec-root").arg(workshop.path("docker-exec"));
    command.arg("--pidfile").arg(workshop.path("docker.pid"));
    command
}
