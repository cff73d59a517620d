//! A fork of a sandbox with ten thousand files, beside `cp -a` of the same files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use coracle::{Config, Coracle, Sandbox, SpecInput};
use serde_json::{Value, json};

use crate::case::{Pace, timed};
use crate::cases::{complaint, name, python};
use crate::measured::Measured;
use crate::study::Study;
use crate::workshop::Workshop;

pub const NAMES: &[&str] = &[name::FORK, name::FORK_HELD, name::COPY];
const OPERATION: &str = "sandbox_fork";
/// A copy takes half a second and more.
const SAMPLES: usize = 7;
/// 211 MB in 10 000 files that no filesystem can make smaller.
const PLANT: &str = "import os
for directory in range(100):
    os.makedirs(f'tree/{directory}')
    for file in range(100):
        with open(f'tree/{directory}/{file}', 'wb') as out: out.write(os.urandom(21100))";

pub struct Fork {
    coracle: Coracle,
    directory: PathBuf,
}

impl Fork {
    /// Refuses where sandboxes cannot be forked at all.
    pub fn new(workshop: &Workshop) -> Result<Self> {
        let directory = workshop.path("copies");
        let coracle = Coracle::open(Config { spares: Some(0), ..Config::at(workshop.path("home-fork")) })?;
        let refused =
            coracle.call(OPERATION, json!({})).err().context("a fork of nothing was not refused")?;
        ensure!(!refused.message.contains("no operation"), "{}", refused.message);
        Ok(Self { coracle, directory })
    }
}

impl Study for Fork {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn carry_out(self: Box<Self>, measured: &mut Measured) -> Result<()> {
        plant_here(&self.directory)?;
        let parent = self.coracle.create(SpecInput::default())?;
        let done = plant_in(&parent).and_then(|()| self.compare(&parent, measured));
        parent.close()?;
        std::fs::remove_dir_all(&self.directory)?;
        done
    }
}

impl Fork {
    fn compare(&self, parent: &Sandbox, measured: &mut Measured) -> Result<()> {
        for sample in 0..SAMPLES {
            // Something has changed since the last fork, as it has when agents fork.
            parent.write_file("note", sample.to_string())?;
            let mut forked = Value::Null;
            let input = json!({"sandbox_id": parent.id().as_str(), "count": 1});
            let took = timed(|| {
                forked = self.coracle.call(OPERATION, input)?;
                Ok(())
            })?;
            self.close_all(parent, &forked)?;
            ensure!(
                forked["method"] != "copied",
                "the files were copied although nothing ran in the sandbox"
            );
            if let Some(held) = forked["held_us"].as_u64() {
                measured.add((name::FORK_HELD, Pace::Own), Duration::from_micros(held));
            }
            measured.add((name::FORK, Pace::Own), took);
            measured.add((name::COPY, Pace::Own), self.copy()?);
        }
        Ok(())
    }

    fn copy(&self) -> Result<Duration> {
        let copy = self.directory.join("copy");
        let mut command = Command::new("cp");
        command.arg("-a").arg(self.directory.join("tree")).arg(&copy);
        let took = timed(|| complaint::run(&mut command))?;
        std::fs::remove_dir_all(copy)?;
        Ok(took)
    }

    /// Closes whatever sandboxes the reply names.
    fn close_all(&self, parent: &Sandbox, forked: &Value) -> Result<()> {
        let ids = sandboxes(forked).into_iter().filter(|id| *id != parent.id().as_str());
        let ids: Vec<&str> = ids.collect();
        ensure!(!ids.is_empty(), "the reply names no fork: {forked}");
        for id in ids {
            self.coracle.call("sandbox_close", json!({"sandbox_id": id}))?;
        }
        Ok(())
    }
}

fn sandboxes(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) if text.starts_with("sbx_") => vec![text],
        Value::Array(items) => items.iter().flat_map(sandboxes).collect(),
        Value::Object(fields) => fields.values().flat_map(sandboxes).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn plant_here(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut command = Command::new(python::INTERPRETER);
    complaint::run(command.args(["-c", PLANT]).current_dir(directory)).map(drop)
}

fn plant_in(sandbox: &Sandbox) -> Result<()> {
    let planted = sandbox.exec(["python3", "-c", PLANT])?;
    ensure!(planted.progress.exit_code == Some(0), "could not fill the workspace");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_are_found_wherever_the_reply_names_them() {
        let reply = json!({"sandbox_ids": ["sbx_b", "sbx_c"], "forked_from": "sbx_a", "method": "layered", "held_us": 3});

        let mut found = sandboxes(&reply);

        found.sort_unstable();
        assert_eq!(found, ["sbx_a", "sbx_b", "sbx_c"]);
    }
}
