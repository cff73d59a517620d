//! One command with a person watching: passes output out, signals and input in, and reports its end.

use std::sync::Arc;

use coracle::{Error, SandboxId};
use coracle_core::exec::Outcome;
use coracle_core::network::Denial;
use coracle_engine::ops::sandbox::exec;
use coracle_engine::progress::Progress;
use coracle_engine::{Call, End, Engine, ExecRequest, OneCommand, OutputTo, Ran, Stdin};

use super::context::Context;
use super::exit::Exit;
use super::forwarding::Bound;
use super::signals::{Caught, Tie};
use super::stop::Stop;
use super::watcher::{Watcher, Wishes};
use super::{input, stderr, stdout};

/// Everything that is ready before the command starts. Signals wait from here on.
#[derive(Debug)]
pub struct Session<'a> {
    context: &'a Context,
    engine: Engine,
    caught: Caught,
    tie: Tie,
}

/// How a command in a sandbox of its own ended.
#[derive(Debug)]
pub enum Ended {
    Ran(Box<Ran>),
    /// A signal came before it started.
    Signalled(Exit),
}

impl<'a> Session<'a> {
    pub fn on(context: &'a Context, engine: Engine, tie: Tie) -> Result<Self, Stop> {
        Ok(Self { context, engine, caught: Caught::from_now(tie)?, tie })
    }

    /// Runs a command in a sandbox to its end and exits as it did.
    pub fn exec(self, sandbox: &SandboxId, mut request: ExecRequest) -> Result<Exit, Stop> {
        request.tied = matches!(self.tie, Tie::Client | Tie::Terminal);
        let (engine, tie, json) = (self.engine.clone(), self.tie, self.context.json);
        let call = self.context.call()?;
        let unread = Unread::of(&request);
        let (call, watcher) = self.watched(call, &request, Vec::new())?;
        let end = match json {
            true => engine.execs().run(call, sandbox, &request).map(End::Captured),
            false => engine.execs().run_watched(call, sandbox, &request).map(End::Watched),
        };
        let end = watcher.finish(end)?;
        unread.tell();
        let exit = Exit::of_progress(end.progress());
        match end {
            End::Captured(captured) => stdout::json(&exec::Output::from(captured))?,
            End::Watched(watched) => explain(&watched.progress, &watched.egress_denied, tie),
        }
        Ok(exit)
    }

    /// Runs a command in a sandbox of its own, with local ports that lead there while it runs.
    pub fn run(self, command: OneCommand, ports: Vec<Bound>) -> Result<Ended, Stop> {
        let (engine, tie) = (self.engine.clone(), self.tie);
        let output = if self.context.json { OutputTo::Answer } else { OutputTo::Observer };
        let call = self.context.call()?;
        // A new sandbox has its own epoch; the caller's is about another one.
        let call = call.on_behalf_of(call.caller.under(None));
        let unread = Unread::of(&command.request);
        let (call, watcher) = self.watched(call, &command.request, ports)?;
        let ran = engine.lifecycle().run(call, OneCommand { output, ..command });
        if let Some(signal) = watcher.signalled() {
            return Ok(Ended::Signalled(Exit::of_signal(signal)));
        }
        let ran = watcher.finish(ran)?;
        unread.tell();
        if let End::Watched(watched) = &ran.end {
            explain(&watched.progress, &watched.egress_denied, tie);
        }
        Ok(Ended::Ran(Box::new(ran)))
    }

    fn watched(
        self,
        call: Call,
        request: &ExecRequest,
        ports: Vec<Bound>,
    ) -> Result<(Call, Arc<Watcher>), Stop> {
        let wishes = Wishes {
            input: request.stdin == Stdin::Open,
            terminal: request.terminal.is_some(),
            ports,
            home: self.context.config()?.home.clone(),
        };
        let watcher = Arc::new(Watcher::new(self.engine, call.clone(), self.caught, wishes));
        Ok((call.watched_by(watcher.clone()), watcher))
    }
}

/// What to tell a person whose input no command gets.
#[derive(Debug, Clone, Copy)]
struct Unread(Option<&'static str>);

impl Unread {
    fn of(request: &ExecRequest) -> Self {
        Self(match (request.stdin == Stdin::Open, request.terminal.is_some()) {
            (true, _) => None,
            (false, false) => Some("standard input is not passed on; add `-i`"),
            (false, true) => Some("standard input is not passed on; write `-i` instead of `-t`"),
        })
    }

    /// Prints the note if there is input. Called at the command's end: at its start, the process that writes the input
    /// may not have written yet.
    fn tell(self) {
        if let Some(note) = self.0.filter(|_| input::is_left_unread()) {
            stderr::note(note);
        }
    }
}

/// Reports what the output of a command alone does not tell.
fn explain(progress: &Progress, denied: &[Denial], tie: Tie) {
    tell_of_end(progress);
    tell_of_background(progress, tie);
    for denial in denied {
        stderr::note(&denial.told());
    }
}

/// Reports why a command ended where its exit code alone could be its own.
fn tell_of_end(progress: &Progress) {
    match progress.outcome {
        None | Some(Outcome::Exited { .. } | Outcome::Signalled { .. }) => {}
        Some(Outcome::OomKilled | Outcome::TimedOut | Outcome::Stopped | Outcome::Lost) => {
            let why = progress.complaint().unwrap_or_default();
            let note = match progress.outcome {
                Some(Outcome::TimedOut) => {
                    format!("command {why}; `--timeout` sets another deadline, or `none`")
                }
                _ => format!("the command did not finish: {why}"),
            };
            stderr::note(&note);
        }
    }
}

/// Reports that background processes were ended with their command: a person who left a server behind would look for
/// it.
fn tell_of_background(progress: &Progress, tie: Tie) {
    let Some(count) = progress.ended_background else { return };
    let what = match count {
        1 => "a process that the command left in the background was ended with it".to_owned(),
        _ => format!("{count} processes that the command left in the background were ended with it"),
    };
    let cure = match tie {
        Tie::Bound => "to keep a command running, start it with `coracle run -d`",
        Tie::Client | Tie::Terminal | Tie::Loose => {
            "to keep them, use `coracle exec --keep-background`, or start each with `coracle exec --detach`"
        }
    };
    stderr::note(&format!("{what}; {cure}"));
}

/// Returns the error that the terminal cannot be used.
pub fn unusable(error: std::io::Error) -> Error {
    Error::internal("could not prepare the terminal", error)
}
