//! What `run` is to do, read and checked before there is a sandbox.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;

use coracle::{Error, Kind, Result, SandboxId, SpecInput};
use coracle_core::spec::Runtime;
use coracle_engine::ops::INPUT_MAX;
use coracle_engine::{Caller, Engine, ExecRequest, NewFile};

use super::Args;
use crate::cli::args::LocalFile;

/// What is to be done in the sandbox, read and checked before there is one.
pub struct Plan {
    /// Set where program text is run.
    pub runtime: Option<Runtime>,
    files: Vec<Source>,
    /// Without a command where the image's own is to be run.
    pub request: ExecRequest,
}

/// A file that goes into the sandbox.
struct Source {
    path: String,
    contents: Box<dyn Read>,
}

impl Plan {
    /// Reads what the flags ask for.
    pub fn of(args: &mut Args, spec: &SpecInput) -> Result<Self> {
        let mut request = args.process.request()?;
        let mut files = Vec::new();
        for LocalFile { path, local } in &args.file {
            let contents = File::open(local).map_err(|error| {
                Error::new(Kind::Invalid, format!("could not open `{}`", local.display())).caused_by(error)
            })?;
            files.push(Source { path: path.clone(), contents: Box::new(contents) });
        }
        let command = std::mem::take(&mut args.command).into_iter().map(OsString::into_vec);
        let Some((runtime, code)) = program_text(args, command.len())? else {
            request.argv = command.collect();
            return Ok(Self { runtime: None, files, request });
        };
        request.cwd = request.cwd.or_else(|| spec.workdir.clone());
        let script = request.run_text(runtime, command.collect());
        if files.iter().any(|file| file.path == script) {
            return Err(Error::invalid(
                "file",
                format!("puts something at `{script}`, which is where the code goes"),
            ));
        }
        files.push(Source { path: script.to_owned(), contents: Box::new(std::io::Cursor::new(code)) });
        Ok(Self { runtime: Some(runtime), files, request })
    }

    /// Brings what the command needs: the image's own command where none was given, and the files.
    pub fn prepare(&mut self, engine: &Engine, caller: &Caller, sandbox: &SandboxId) -> Result<()> {
        if self.request.argv.is_empty() {
            self.request.argv = engine.image_command(sandbox)?;
        }
        if self.files.is_empty() {
            return Ok(());
        }
        let mut attached = engine.attach(caller, sandbox)?;
        for Source { path, contents } in &mut self.files {
            attached.write_file(&NewFile::at(path.as_str()), contents)?;
        }
        Ok(())
    }
}

/// Returns the text to run and its language, or nothing where a command is to be run.
fn program_text(args: &Args, words: usize) -> Result<Option<(Runtime, Vec<u8>)>> {
    match (&args.code, args.spec.runtime) {
        (Some(code), runtime) => Ok(Some((runtime.unwrap_or(Runtime::Python), code.clone().into_bytes()))),
        (None, _) if words > 0 => Ok(None),
        (None, Some(_)) if args.process.interactive => {
            Err(Error::invalid("interactive", "is not possible while the code comes from standard input")
                .hint("give the code with `-c CODE`"))
        }
        (None, Some(runtime)) => Ok(Some((runtime, read_code()?))),
        (None, None) => Ok(None),
    }
}

fn read_code() -> Result<Vec<u8>> {
    let mut code = Vec::new();
    let read = std::io::stdin().lock().take(INPUT_MAX as u64 + 1).read_to_end(&mut code);
    match read {
        Ok(length) if length > INPUT_MAX => {
            Err(Error::invalid("code", format!("has more than {INPUT_MAX} bytes")))
        }
        Ok(_) => Ok(code),
        Err(error) => Err(Error::internal("could not read code from standard input", error)),
    }
}
