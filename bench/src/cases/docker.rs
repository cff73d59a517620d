//! Docker by its command line, where an engine answers: one-shot, exec, and a file by its archive API.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::process::Process;
use super::{LineUp, direct, name};

const IMAGE: &str = "coracle-bench";
const CONTAINER: &str = "coracle-bench-open";

/// Adds the cases, or one reason for all of them.
pub fn add(line_up: &mut LineUp, workshop: &Path, program: &Path) {
    if let Err(reason) = prepare(workshop, program) {
        let cases = [name::DOCKER_RUN, name::DOCKER_EXEC, name::DOCKER_ARCHIVE];
        line_up.absent.extend(cases.map(|name| (name, format!("{reason:#}"))));
        return;
    }
    line_up.add(
        name::DOCKER_RUN,
        Process::new(name::DOCKER_RUN, docker(&["run", "--rm", "--network", "none", IMAGE, "/true"])),
    );
    line_up.add(name::DOCKER_EXEC, Process::new(name::DOCKER_EXEC, docker(&["exec", CONTAINER, "/true"])));
    let file = workshop.join("kibibyte").to_string_lossy().into_owned();
    line_up.add(
        name::DOCKER_ARCHIVE,
        Process::new(name::DOCKER_ARCHIVE, docker(&["cp", "--quiet", &file, &format!("{CONTAINER}:/file")])),
    );
}

/// Makes an image of nothing but our programs, and a container that stays.
fn prepare(workshop: &Path, program: &Path) -> Result<()> {
    run(docker(&["version"]))?;
    std::fs::write(workshop.join("kibibyte"), direct::CONTENTS)?;
    let (source, pause) = (workshop.join("pause.c"), workshop.join("pause"));
    std::fs::write(&source, "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n")?;
    run(Command::new("gcc").args(["-O2", "-static", "-o"]).arg(&pause).arg(&source))?;
    let parent = program.parent().context("the program lies in the workshop")?;
    let archive = Command::new("tar")
        .arg("--create")
        .arg("--directory")
        .arg(parent)
        .args(["true", "pause"])
        .output()?;
    let mut import = docker(&["import", "-", IMAGE]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    import.stdin.take().context("stdin is a pipe")?.write_all(&archive.stdout)?;
    ensure!(import.wait()?.success(), "could not import an image");
    let _ = docker(&["rm", "--force", CONTAINER]).output();
    run(docker(&["run", "--detach", "--name", CONTAINER, "--network", "none", IMAGE, "/pause"]))
}

fn docker(arguments: &[&str]) -> Command {
    let mut command = Command::new("docker");
    command.args(arguments);
    command
}

fn run(mut command: impl std::borrow::BorrowMut<Command>) -> Result<()> {
    let output = command.borrow_mut().output().context("it cannot be started")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it says: {}", complaint.lines().last().unwrap_or_default());
    Ok(())
}
