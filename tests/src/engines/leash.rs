//! The process that isolates a container engine from the machine, and ends it with the process that started it.
//!
//! It needs no message to end: the kernel closes our end of a pipe, however we end. The script at the other end
//! is the first process of the engine's namespaces, so the kernel ends everything in them with it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::fs::{FlockOperation, flock};

const SCRIPT: &str = include_str!("leash.sh");
const PREFIX: &str = "coracle-engine-";

/// Where an engine keeps images and containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Quick, and gone with the engine.
    Memory,
    /// As users have it.
    Disk,
}

/// The directory of one engine, with `data` in it.
#[derive(Debug)]
pub struct EngineDir {
    path: PathBuf,
    /// Locked for as long as a process has it open to write: the lock tells a live engine from a dead one.
    log: File,
}

impl EngineDir {
    pub fn new() -> io::Result<Self> {
        sweep();
        let path = tempfile::Builder::new().prefix(PREFIX).tempdir()?.keep();
        fs::create_dir(path.join("data"))?;
        fs::write(path.join("leash.sh"), SCRIPT)?;
        // Only a log that is locked already gets the name others look for.
        let log = File::create(path.join("log.new"))?;
        flock(&log, FlockOperation::LockExclusive)?;
        fs::rename(path.join("log.new"), path.join("log"))?;
        Ok(Self { path, log })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A leash for an engine that has not been started yet.
#[derive(Debug)]
pub struct Leash {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    log: File,
}

impl Leash {
    /// Prepares to run `program` in its directory.
    pub fn new(dir: EngineDir, storage: Storage, program: &[String]) -> io::Result<Self> {
        let storage = match storage {
            Storage::Memory => "memory",
            Storage::Disk => "disk",
        };
        let log = File::open(dir.path.join("log"))?;
        let mut child = Command::new("bash")
            .arg(dir.path.join("leash.sh"))
            .arg("keep")
            .arg(&dir.path)
            .arg(storage)
            .args(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(dir.log)
            // What a terminal sends to us is not meant for it: it has to clean up after us.
            .process_group(0)
            .spawn()?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        Ok(Self { child, orders, answers, log })
    }

    /// Gives an order and waits until it was carried out.
    pub fn order(&mut self, order: &str) -> io::Result<()> {
        let orders = self.orders.as_mut().expect("orders are taken until the end");
        orders.write_all(format!("{order}\n").as_bytes())?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(io::Error::other(self.log())),
            _ => Ok(()),
        }
    }

    /// Returns what was logged since the last look.
    pub fn log(&mut self) -> String {
        let mut text = Vec::new();
        let _ = self.log.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.child.wait();
    }
}

/// Removes the directories of engines that were killed before they could do so.
fn sweep() {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    for dir in dirs.map(|entry| entry.path()).filter(|dir| is_abandoned(dir)) {
        let _ = Command::new("bash").arg(dir.join("leash.sh")).arg("remove").arg(&dir).status();
    }
}

fn is_abandoned(dir: &Path) -> bool {
    let log = File::open(dir.join("log"));
    log.is_ok_and(|log| flock(log, FlockOperation::NonBlockingLockExclusive).is_ok())
}
