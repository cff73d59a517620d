//! What an image says of commands: whose they are, and which one to run where none was given. Data, never a right: the
//! guest decides what it makes of a user.

use coracle_core::image::HOST;
use coracle_core::{Error, Record, Result, SandboxId};

use super::Execs;

impl Execs {
    /// Returns the command the image of a sandbox is made for, or says that it has none.
    pub fn image_command(&self, id: &SandboxId) -> Result<Vec<Vec<u8>>> {
        command(&self.records.find(id)?)
    }
}

/// Returns the command the image is made for: its entry point and that one's arguments.
pub(crate) fn command(record: &Record) -> Result<Vec<Vec<u8>>> {
    let words = record.image.iter().flat_map(|image| image.entrypoint.iter().chain(&image.cmd));
    let argv: Vec<_> = words.map(|word| word.clone().into_bytes()).collect();
    match argv.is_empty() {
        true => Err(nothing_to_run(&record.spec.image)),
        false => Ok(argv),
    }
}

fn nothing_to_run(image: &str) -> Error {
    Error::invalid("cmd", format!("is missing, and the image `{image}` names no command of its own"))
        .hint("give a command, or program text and its runtime")
}

/// Adds to a failed start what the image has to do with it.
pub(super) fn explained(error: Error, record: &Record, argv: &[Vec<u8>]) -> Error {
    let missing = error.details.get("exit_code").is_some_and(|code| code == 127);
    let Some(program) = argv.first().filter(|_| missing && error.hint.is_none()) else { return error };
    let (image, program) = (&record.spec.image, program.escape_ascii());
    let hint = match program.to_string() {
        line if line.contains(' ') => format!(
            "`{line}` is one word and is taken for the name of a program: leave out the quotes around it, or have a shell \
             read it with `sh -c`"
        ),
        path if path.contains('/') => {
            format!("the image `{image}` has no `{path}`, or not the interpreter or loader it asks for")
        }
        name if image == HOST => format!("install `{name}` on this machine, or use an image that has it"),
        name => format!("the image `{image}` has no `{name}` in its PATH"),
    };
    error.hint(hint).detail("image", image.as_str())
}
