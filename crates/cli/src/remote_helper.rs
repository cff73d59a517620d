//! `git-remote-coracle`: git starts the binary under this name for URLs such as `coracle://NAME`, because it speaks no HTTP
//! over unix sockets. Works on the home itself, without a daemon.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use coracle_core::repo::{Phase, Protocol, Service};
use coracle_core::{Cancel, Error, Kind, Result};

use crate::context::Context;
use crate::stderr;

/// The name git starts it by.
pub const NAME: &str = "git-remote-coracle";
/// Longer lines are no commands of git's.
const LINE_MAX: usize = 256;

/// Tells whether the binary was started under that name.
pub fn is_meant(arguments: &[OsString]) -> bool {
    let program = arguments.first().map(Path::new).and_then(Path::file_name);
    program.is_some_and(|name| name == NAME)
}

/// Talks with git until it has what it wants. `arguments` are those of the process.
pub fn carry_out(context: &Context, arguments: &[OsString]) -> bool {
    match converse(context, arguments) {
        Ok(()) => true,
        Err(error) => {
            stderr::error(&error);
            false
        }
    }
}

fn converse(context: &Context, arguments: &[OsString]) -> Result<()> {
    let name = repository(arguments)?;
    let talk = |error| Error::internal("could not talk with git", error);
    let mut output = io::stdout();
    while let Some(line) = line().map_err(talk)? {
        match line.split_once(' ') {
            None if line == "capabilities" => output.write_all(b"connect\n\n").map_err(talk)?,
            None if line.is_empty() => return Ok(()),
            Some(("connect", wanted)) => match Service::of(wanted) {
                Some(service) => {
                    output.write_all(b"\n").and_then(|()| output.flush()).map_err(talk)?;
                    return serve(context, &name, service);
                }
                None => output.write_all(b"fallback\n").map_err(talk)?,
            },
            Some(("option", _)) => output.write_all(b"unsupported\n").map_err(talk)?,
            None | Some(_) => {
                return Err(Error::new(
                    Kind::Unsupported,
                    format!("git asks for `{line}`, which is not known"),
                ));
            }
        }
        output.flush().map_err(talk)?;
    }
    Ok(())
}

/// Returns the repository that the URL names.
fn repository(arguments: &[OsString]) -> Result<String> {
    let url = arguments.get(2).and_then(|url| url.to_str()).unwrap_or_default();
    let name = url.strip_prefix("coracle://").unwrap_or(url).trim_end_matches('/');
    let name = name.strip_suffix(".git").unwrap_or(name);
    match name.is_empty() {
        true => Err(Error::invalid("url", "names no repository").hint("write `coracle://NAME`")),
        false => Ok(name.to_owned()),
    }
}

fn serve(context: &Context, name: &str, service: Service) -> Result<()> {
    let engine = context.engine()?;
    let repo = engine.repositories().find(&context.caller()?, name)?;
    let protocol = match service {
        // Git reads the version from the answer.
        Service::UploadPack => {
            coracle::config::git_protocol().map_or(Protocol::V2, |text| Protocol::asked_for(&text))
        }
        Service::ReceivePack => Protocol::V0,
    };
    let talk = |error| Error::internal("could not talk with git", error);
    let own = |stream: io::Result<OwnedFd>| stream.map_err(talk);
    let (input, output) =
        (own(io::stdin().as_fd().try_clone_to_owned())?, own(io::stdout().as_fd().try_clone_to_owned())?);
    let cancel = Cancel::default();
    engine.repositories().serve(&repo, (service, protocol, Phase::Whole), input, output, &cancel).map(drop)
}

/// Reads one line and not a byte more: what follows is for the service.
fn line() -> io::Result<Option<String>> {
    let (mut input, mut line, mut byte) =
        (io::stdin().as_fd().try_clone_to_owned().map(std::fs::File::from)?, Vec::new(), [0]);
    loop {
        match input.read(&mut byte)? {
            0 if line.is_empty() => return Ok(None),
            0 => break,
            _ if byte[0] == b'\n' => break,
            _ if line.len() >= LINE_MAX => return Err(io::ErrorKind::InvalidData.into()),
            _ => line.push(byte[0]),
        }
    }
    String::from_utf8(line).map(Some).map_err(io::Error::other)
}
