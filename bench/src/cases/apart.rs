//! A process started again and again in a mount namespace of its own, by this program running in there.
//!
//! Entering the namespace for each sample would cost as much as what is measured, so a second copy of us lives in it,
//! starts the command when told to, and reports the time it took.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::process::Process;
use crate::case::Case;

/// The word that makes this program the copy within.
pub const WITHIN: &str = "--within";

/// A case whose command runs in another mount namespace.
pub struct Apart {
    name: &'static str,
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Apart {
    /// Prepares the namespace with a shell script, then sees the command succeed once.
    pub fn new(name: &'static str, preparation: &str, command: &Command) -> Result<Self> {
        let ourselves = std::env::current_exe()?;
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-c", &format!("{preparation}; exec \"$@\""), "sh"])
            .arg(ourselves)
            .arg(WITHIN)
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("`unshare` cannot be started")?;
        let orders = child.stdin.take().context("stdin is a pipe")?;
        let answers = BufReader::new(child.stdout.take().context("stdout is a pipe")?);
        let mut case = Self { name, child, orders, answers };
        case.once()?;
        Ok(case)
    }
}

impl Case for Apart {
    fn name(&self) -> &'static str {
        self.name
    }

    fn once(&mut self) -> Result<Duration> {
        writeln!(self.orders)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim().parse() {
            Ok(nanos) => Ok(Duration::from_nanos(nanos)),
            Err(_) => bail!("it says: {}", answer.trim()),
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is the copy within: runs the command for each line on stdin and prints how many nanoseconds it took, or why not.
pub fn serve(mut words: impl Iterator<Item = OsString>) -> Result<()> {
    let mut command = Command::new(words.next().context("no command was given")?);
    command.args(words);
    let mut case = Process::new(WITHIN, command);
    for _ in std::io::stdin().lines() {
        match &mut case {
            Ok(case) => println!("{}", case.once()?.as_nanos()),
            Err(reason) => println!("{}", format!("{reason:#}").replace('\n', " ")),
        }
    }
    Ok(())
}
