//! `coracle logs`: prints the output of a command of any run, from any chunk on.

use coracle_engine::follow::{Chunk, Stream};
use coracle_engine::ops::sandbox::{exec_read, exec_wait};
use coracle_engine::text;

use crate::args::{ExecName, SandboxName};
use crate::context::Context;
use crate::exec_output::{self, Gaps};
use crate::exit::Exit;
use crate::signals::Target;
use crate::stop::Stop;
use crate::tail::last_lines;
use crate::{stderr, stdout};

/// With `--json`, every chunk is a document on a line of its own, and one more with `done` ends them.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    /// Name a command by its id or the beginning of its id; by default it is that of `run -d`, or the only one
    #[arg(value_name = "EXEC")]
    exec: Option<ExecName>,
    /// Begin after this chunk; chunks count from 1
    #[arg(long, value_name = "N", default_value_t = 0)]
    since_seq: u64,
    /// Begin with the last N lines
    #[arg(long, short = 'n', value_name = "N")]
    tail: Option<u64>,
    /// Go on until the command ends, and exit as it did
    #[arg(long, short)]
    follow: bool,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let (engine, caller) = (context.engine()?, context.caller()?);
    let sandbox = context.sandbox(&engine, &args.sandbox)?;
    let exec = context.exec(&engine, &sandbox, args.exec.as_ref())?;
    let target = Target { engine, caller, sandbox, exec };
    let since = args.since_seq;
    let (progress, exit) = match (args.tail, args.follow) {
        (Some(lines), follow) => {
            let mut kept = Vec::new();
            let progress = so_far(&target, since, |chunk| {
                kept.push(chunk);
                Ok(())
            })?;
            // Later output continues after the last stored chunk, printed or not.
            let last = kept.last().map_or(since, |chunk| chunk.seq);
            let shown = last_lines(kept, lines);
            let mut print = printer(context, shown.first().map_or(last, |chunk| chunk.seq - 1));
            shown.into_iter().try_for_each(&mut print)?;
            match follow {
                true => to_the_end(&target, last, print)?,
                false => (progress, Exit::SUCCESS),
            }
        }
        (None, true) => to_the_end(&target, since, printer(context, since))?,
        (None, false) => (so_far(&target, since, printer(context, since))?, Exit::SUCCESS),
    };
    if context.json {
        stdout::json_line(&progress)?;
    } else if let Some(ending) = progress.progress.ending().filter(|_| !args.follow) {
        // A person who follows sees the end, by the exit code too; without following, no output looks like none yet.
        stderr::note(&format!("exec `{}` has ended: {ending}", target.exec));
    }
    Ok(exit)
}

/// Returns a printer of the chunks after `since`.
fn printer(context: &Context, since: u64) -> impl FnMut(Chunk) -> Result<(), Stop> {
    let (json, mut gaps) = (context.json, Gaps::after(since));
    move |chunk| match json {
        true => stdout::json_line(&exec_read::OutputChunk::from(chunk)),
        false => {
            gaps.see(&chunk);
            exec_output::pass_on(&chunk)
        }
    }
}

/// Passes on all chunks, until the command ends.
fn to_the_end(
    target: &Target,
    since: u64,
    print: impl FnMut(Chunk) -> Result<(), Stop>,
) -> Result<(exec_wait::Output, Exit), Stop> {
    let follow = target.engine.execs().follow(&target.caller, &target.sandbox, &target.exec, since)?;
    let progress = exec_output::each_chunk(follow, print)?;
    let exit = Exit::of_progress(&progress);
    Ok((progress.into(), exit))
}

/// Passes on the chunks so far.
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

/// Decodes the bytes of a chunk from their form in JSON.
fn decoded(chunk: exec_read::OutputChunk) -> Result<Chunk, Stop> {
    let stream = match chunk.stream {
        exec_read::StreamName::Stdout => Stream::Stdout,
        exec_read::StreamName::Stderr => Stream::Stderr,
    };
    let data = text::decode("chunk", chunk.text, chunk.b64)?.unwrap_or_default();
    Ok(Chunk { seq: chunk.seq, stream, data })
}
