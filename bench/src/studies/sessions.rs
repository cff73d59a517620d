//! Libraries that keep a container for an agent: how long opening, a command in it, and closing take.

use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use coracle_tests::engines::Engine;

use crate::case::Pace;
use crate::cases::dockerd::MaybeDockerd;
use crate::cases::{complaint, image, name};
use crate::measured::Measured;
use crate::study::Study;
use crate::workshop::Workshop;

/// Closing takes ten seconds: they stop a shell politely that does not listen.
const SESSIONS: usize = 3;

/// A library and the program that drives it: for each session a line with the seconds each of the three took.
pub struct Library {
    /// Open, command, close.
    pub names: &'static [&'static str; 3],
    program: &'static str,
}

pub const AUTOGEN: Library = Library {
    names: &[name::AUTOGEN_OPEN, name::AUTOGEN_COMMAND, name::AUTOGEN_CLOSE],
    program: include_str!("../../peers/autogen.py"),
};

pub const LLM_SANDBOX: Library = Library {
    names: &[name::LLM_SANDBOX_OPEN, name::LLM_SANDBOX_COMMAND, name::LLM_SANDBOX_CLOSE],
    program: include_str!("../../peers/llm_sandbox.py"),
};

impl Library {
    pub fn study(&'static self, workshop: &Workshop, dockerd: &MaybeDockerd) -> Result<Sessions> {
        let dockerd = dockerd.as_ref().map_err(|reason| anyhow!("{reason:#}"))?;
        let python = workshop.python.clone().context("`cargo xtask bench --peers` installs it")?;
        Ok(Sessions { library: self, python, dockerd: Rc::clone(dockerd) })
    }
}

pub struct Sessions {
    library: &'static Library,
    python: PathBuf,
    dockerd: Rc<Engine>,
}

impl Study for Sessions {
    fn names(&self) -> &'static [&'static str] {
        self.library.names
    }

    fn carry_out(self: Box<Self>, measured: &mut Measured) -> Result<()> {
        let mut command = Command::new(&self.python);
        command.args(["-c", self.library.program, image::NAME, &SESSIONS.to_string()]);
        let printed = complaint::run(command.env("DOCKER_HOST", self.dockerd.address()))?;
        let printed = String::from_utf8(printed)?;
        let lines: Vec<&str> = printed.lines().collect();
        ensure!(lines.len() == SESSIONS, "it had {} sessions instead of {SESSIONS}", lines.len());
        for line in lines {
            for (name, took) in self.library.names.iter().zip(durations(line)?) {
                measured.add((name, Pace::Own), took);
            }
        }
        Ok(())
    }
}

/// Reads three numbers of seconds.
fn durations(line: &str) -> Result<[Duration; 3]> {
    let seconds: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
    let durations = seconds?.into_iter().map(Duration::try_from_secs_f64).collect::<Result<Vec<_>, _>>()?;
    durations.try_into().map_err(|_| anyhow!("`{line}` is not three numbers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_three_durations() {
        let took = durations("0.25 0.5 10.0").expect("three numbers");

        assert_eq!(took.map(|took| took.as_millis()), [250, 500, 10_000]);
        assert!(durations("0.25 0.5").is_err());
        assert!(durations("0.25 -1 2").is_err());
    }
}
