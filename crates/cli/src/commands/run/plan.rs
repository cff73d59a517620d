//! What `run` shall do, read and checked before there is a sandbox.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Cursor, Read};
use std::os::unix::ffi::OsStringExt;

use coracle::{Error, Kind, Result, SpecInput};
use coracle_core::spec::Runtime;
use coracle_engine::ops::INPUT_MAX;
use coracle_engine::{NewFile, OneCommand, OutputTo};

use super::Args;
use crate::args::LocalFile;

/// Reads what the flags ask for.
pub fn of(args: &mut Args, spec: SpecInput) -> Result<OneCommand> {
    let mut request = args.process.request()?;
    let mut files: Vec<(NewFile, Box<dyn Read + Send>)> = Vec::new();
    for LocalFile { path, local } in &args.file {
        let contents = File::open(local).map_err(|error| {
            Error::new(Kind::Invalid, format!("could not open `{}`", local.display())).caused_by(error)
        })?;
        files.push((NewFile::at(path.as_str()), Box::new(contents)));
    }
    let command = std::mem::take(&mut args.command).into_iter().map(OsString::into_vec);
    let runtime = match program_text(args, command.len())? {
        None => {
            request.argv = command.collect();
            None
        }
        Some((runtime, code)) => {
            request.cwd = request.cwd.or_else(|| spec.workdir.clone());
            let script = request.run_text(runtime, command.collect());
            if args.file.iter().any(|file| file.path == script) {
                return Err(Error::invalid(
                    "file",
                    format!("puts something at `{script}`, which is where the code goes"),
                ));
            }
            files.push((NewFile::at(script), Box::new(Cursor::new(code))));
            Some(runtime)
        }
    };
    let (name, output) = (args.name.take(), OutputTo::Observer);
    Ok(OneCommand { spec, name, runtime, files, request, output, pool: None })
}

/// Returns the program text and its language, or `None` where a command is to be run.
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
