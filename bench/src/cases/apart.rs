//! Processes started again and again in namespaces of their own, by this program running in there.
//!
//! Entering a namespace for each sample would cost as much as what is measured, so a second process of this program
//! lives in it, starts the programs it reads from standard input, and reports the time each took. All it leaves running
//! ends with it, and it ends with the benchmark.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::case::{Case, Pace, timed};

/// The word that makes this program the copy within.
pub const WITHIN: &str = "--within";
/// The copy runs the command and says how long it took.
const TIME: &str = "time";
/// The copy runs the command, which may leave something running.
const PREPARE: &str = "prepare";

/// Mounts and processes of their own, and a copy of us in there.
pub struct Namespace {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Namespace {
    /// Makes the namespaces and runs a shell script in them.
    pub fn new(script: &str) -> Result<Rc<RefCell<Self>>> {
        let mut child = Command::new("setpriv")
            .args([
                "--pdeathsig",
                "KILL",
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
            ])
            .args(["sh", "-c", &format!("{script}\nexec \"$@\""), "sh"])
            .arg(std::env::current_exe()?)
            .arg(WITHIN)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("`setpriv` cannot be started")?;
        let orders = child.stdin.take().context("stdin is a pipe")?;
        let answers = BufReader::new(child.stdout.take().context("stdout is a pipe")?);
        Ok(Rc::new(RefCell::new(Self { child, orders, answers })))
    }

    /// Runs a command that is not timed. What it leaves running stays.
    pub fn prepare(&mut self, command: &Command) -> Result<()> {
        self.order(PREPARE, command).map(drop)
    }

    fn order(&mut self, order: &str, command: &Command) -> Result<Duration> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Option<Vec<&str>> = words.map(|word| word.to_str()).collect();
        writeln!(self.orders, "{}", json!([order, words.context("a word is not UTF-8")?]))?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim().parse() {
            Ok(nanos) => Ok(Duration::from_nanos(nanos)),
            Err(_) => bail!("it says: {}", answer.trim()),
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A case whose command runs in there.
pub struct Apart {
    pub name: &'static str,
    pub paces: &'static [Pace],
    pub namespace: Rc<RefCell<Namespace>>,
    pub command: Command,
    /// What removes what the case kept open.
    pub at_end: Option<Command>,
}

impl Apart {
    /// Returns the case after seeing its command succeed once.
    pub fn tried(self) -> Result<Self> {
        self.namespace.borrow_mut().prepare(&self.command)?;
        Ok(self)
    }
}

impl Case for Apart {
    fn name(&self) -> &'static str {
        self.name
    }

    fn paces(&self) -> &'static [Pace] {
        self.paces
    }

    fn once(&mut self) -> Result<Duration> {
        self.namespace.borrow_mut().order(TIME, &self.command)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let Some(command) = &self.at_end else { return };
        if let Err(error) = self.namespace.borrow_mut().prepare(command) {
            eprintln!("could not clean up after `{}`: {error:#}", self.name);
        }
    }
}

/// Is the copy within: carries out the order on each line of stdin and prints how many nanoseconds it took, or why not.
pub fn serve() -> Result<()> {
    for line in std::io::stdin().lines() {
        let (order, words): (String, Vec<String>) = serde_json::from_str(&line?)?;
        let (program, arguments) = words.split_first().context("no command was given")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        match carry_out(&order, &mut command) {
            Ok(took) => println!("{}", took.as_nanos()),
            Err(reason) => println!("{}", format!("{reason:#}").replace('\n', " ")),
        }
    }
    Ok(())
}

fn carry_out(order: &str, command: &mut Command) -> Result<Duration> {
    // A file, because the end of a pipe would be held by whatever the command leaves running.
    let mut complaint = tempfile::tempfile()?;
    if order == PREPARE {
        command.stderr(complaint.try_clone()?);
    }
    let took = timed(|| {
        let status = command.status()?;
        complaint.rewind()?;
        let mut text = String::new();
        complaint.read_to_string(&mut text)?;
        ensure!(status.success(), "{status}: {}", text.trim());
        Ok(())
    })?;
    Ok(took)
}
