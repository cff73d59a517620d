//! `coracle logs`: prints the output of a command, whoever started it, from any place on.

use coracle_engine::follow::{Chunk, Stream};
use coracle_engine::ops::sandbox::{exec_read, exec_wait};
use coracle_engine::text;

use crate::cli::args::{ExecName, SandboxName};
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::live::{self, Gaps};
use crate::cli::signals::Target;
use crate::cli::stdout;
use crate::cli::stop::Stop;

/// With `--json`, every chunk is a document on a line of its own, and one more with `done` ends them.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    /// The command, by its id or the beginning of it; the one of `run -d`, or the only one, if absent
    #[arg(value_name = "EXEC")]
    exec: Option<ExecName>,
    /// Begin behind this chunk; they count from 1
    #[arg(long, value_name = "N", default_value_t = 0)]
    since_seq: u64,
    /// Go on until the command ends, and exit as it did
    #[arg(long, short)]
    follow: bool,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let (engine, caller) = (context.engine()?, context.caller()?);
    let sandbox = context.sandbox(&engine, &args.sandbox)?;
    let exec = context.exec(&engine, &sandbox, args.exec.as_ref())?;
    let target = Target { engine, caller, sandbox, exec };
    let mut gaps = Gaps::after(args.since_seq);
    let print = |chunk: Chunk| match context.json {
        true => stdout::json_line(&exec_read::OutputChunk::from(chunk)),
        false => {
            gaps.see(&chunk);
            live::pass_on(&chunk)
        }
    };
    let (progress, exit) = match args.follow {
        true => {
            let follow =
                target.engine.follow(&target.caller, &target.sandbox, &target.exec, args.since_seq)?;
            let progress = live::each_chunk(follow, print)?;
            let exit = Exit::of_progress(&progress);
            (progress.into(), exit)
        }
        false => (so_far(&target, args.since_seq, print)?, Exit::SUCCESS),
    };
    if context.json {
        stdout::json_line(&progress)?;
    }
    Ok(exit)
}

/// Hands out what there is now.
fn so_far(
    target: &Target,
    mut since_seq: u64,
    mut print: impl FnMut(Chunk) -> Result<(), Stop>,
) -> Result<exec_wait::Output, Stop> {
    loop {
        let input = exec_read::Input {
            sandbox_id: target.sandbox.clone(),
            exec_id: target.exec.clone(),
            since_seq,
            max_chunks: None,
        };
        let read = target.engine.perform(&target.caller, input)?;
        let Some(last) = read.chunks.last().map(|chunk| chunk.seq) else { return Ok(read.progress.into()) };
        since_seq = last;
        for chunk in read.chunks {
            print(decoded(chunk)?)?;
        }
    }
}

/// Undoes what an operation does to bytes for the sake of JSON.
fn decoded(chunk: exec_read::OutputChunk) -> Result<Chunk, Stop> {
    let stream = match chunk.stream {
        exec_read::StreamName::Stdout => Stream::Stdout,
        exec_read::StreamName::Stderr => Stream::Stderr,
    };
    let data = text::decode("chunk", chunk.text, chunk.b64)?.unwrap_or_default();
    Ok(Chunk { seq: chunk.seq, stream, data })
}
