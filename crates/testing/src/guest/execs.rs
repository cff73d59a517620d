//! The execs of the fake guest: one thread each; output and end are kept.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use coracle_core::spec::WORKSPACE;
use coracle_wire::{
    Chunk, Command, Ending, ExecState, ExecSummary, FaultCode, LimitHit, Reply, Stage, Stream, Truncation,
};

use super::super::channel::Channel;
use super::program::{self, Deed};
use super::{Answer, Guest, errno, fault, file_fault, serve};

/// Every exec there has been.
#[derive(Debug, Default)]
pub struct Execs(BTreeMap<String, Exec>);

#[derive(Debug)]
struct Exec {
    command: Command,
    epoch: u64,
    started: Instant,
    chunks: Vec<Chunk>,
    state: ExecState,
    /// Input written to it and not read yet.
    input: Vec<u8>,
    input_closed: bool,
    /// How it shall end, once a caller wants it to.
    wanted: Option<Ending>,
}

impl Execs {
    pub fn summaries(&self) -> Vec<ExecSummary> {
        let summary = |(exec, it): (&String, &Exec)| ExecSummary {
            exec: exec.clone(),
            argv: it.command.argv.clone(),
            epoch: it.epoch,
            state: it.seen(),
        };
        self.0.iter().map(summary).collect()
    }

    pub fn running(&self) -> usize {
        self.0.values().filter(|exec| exec.state.ending.is_none()).count()
    }

    pub fn has(&self, exec: &str) -> bool {
        self.0.contains_key(exec)
    }

    pub fn spooled(&self) -> usize {
        self.0.values().flat_map(|exec| &exec.chunks).map(|chunk| chunk.data.len()).sum()
    }

    fn get(&mut self, exec: &str) -> Answer<&mut Exec> {
        self.0.get_mut(exec).ok_or_else(|| fault(FaultCode::NotFound, format!("there is no exec `{exec}`")))
    }
}

impl Exec {
    fn new(command: Command, epoch: u64) -> Self {
        let state = ExecState::unseen();
        let input_closed = !command.stdin;
        let (started, chunks, input) = (Instant::now(), Vec::new(), Vec::new());
        Self { command, epoch, started, chunks, state, input, input_closed, wanted: None }
    }

    fn say(&mut self, stream: Stream, data: Vec<u8>) {
        let count = match stream {
            Stream::Stdout => &mut self.state.stdout_bytes,
            Stream::Stderr => &mut self.state.stderr_bytes,
        };
        *count += data.len() as u64;
        self.state.last_seq += 1;
        let (seq, bytes) = (self.state.last_seq, data.len() as u64);
        let kept: usize = self.chunks.iter().map(|chunk| chunk.data.len()).sum();
        if (kept + data.len()) as u64 <= self.command.output_bytes {
            return self.chunks.push(Chunk { seq, stream, data });
        }
        let gone = self.state.truncation.get_or_insert(Truncation { from: seq, to: seq, bytes: 0 });
        (gone.to, gone.bytes) = (seq, gone.bytes + bytes);
        if !self.state.limits.contains(&LimitHit::Output) {
            self.state.limits.push(LimitHit::Output);
        }
    }

    fn finish(&mut self, ending: Ending) {
        if ending == Ending::TimedOut {
            self.state.limits.push(LimitHit::WallTime);
        }
        self.state.duration_ms = self.started.elapsed().as_millis() as u64;
        self.state.ending = Some(ending);
    }

    fn seen(&self) -> ExecState {
        let mut state = self.state.clone();
        if state.ending.is_none() {
            state.duration_ms = self.started.elapsed().as_millis() as u64;
        }
        state
    }
}

/// Which output a client wants.
pub(super) struct Reading<'a> {
    pub exec: &'a str,
    pub since: u64,
    pub max_chunks: usize,
}

impl Guest {
    /// Returns a command that was started.
    pub fn command(&self, exec: &str) -> Option<Command> {
        self.state().execs.0.get(exec).map(|exec| exec.command.clone())
    }

    pub(super) fn start(&self, exec: String, mut command: Command, epoch: u64) -> Answer<Reply> {
        let untied = command.tied.take() == Some(false);
        let mut state = self.state();
        if let Some(existing) = state.execs.0.get(&exec) {
            // Other fields may differ; it is still the same command.
            let Command { attended, background_ms, .. } = existing.command;
            return match existing.command == (Command { attended, background_ms, ..command }) {
                true => Ok(Reply::Started { existing: true }),
                false => Err(fault(FaultCode::Conflict, format!("exec `{exec}` is another command"))),
            };
        }
        if exec.is_empty() || command.argv.first().is_none_or(Vec::is_empty) {
            return Err(fault(FaultCode::Invalid, "a command needs an id and a program"));
        }
        let Some(deeds) = program::parse(&command, &self.0.env) else {
            let mut missing =
                fault(FaultCode::NotStarted { stage: Stage::Execute }, "could not execute the program");
            missing.errno = Some(errno::ENOENT);
            return Err(missing);
        };
        let deadline = command.deadline_ms.map(serve::deadline);
        if untied {
            state.ties.untie(&exec);
        }
        let over = state.ties.is_over(&exec);
        let wanted = over.then_some(Ending::Stopped);
        state.execs.0.insert(exec.clone(), Exec { wanted, ..Exec::new(command, epoch) });
        drop(state);
        let guest = self.clone();
        std::thread::spawn(move || guest.perform(&exec, deeds, deadline));
        Ok(Reply::Started { existing: false })
    }

    pub(super) fn read(&self, reading: &Reading<'_>, until: Instant, client: &mut Channel) -> Answer<Reply> {
        let Reading { exec, since, max_chunks } = *reading;
        let mut state = self.state();
        loop {
            let dead = state.dead || client.has_ended();
            let it = state.execs.get(exec)?;
            let chunks: Vec<_> =
                it.chunks.iter().filter(|chunk| chunk.seq > since).take(max_chunks).cloned().collect();
            if dead || !chunks.is_empty() || it.state.ending.is_some() || Instant::now() >= until {
                return Ok(Reply::Output { chunks, state: it.seen() });
            }
            state = self.wait(state, Some(until.min(look_again())));
        }
    }

    pub(super) fn wait_for_end(
        &self,
        exec: &str,
        until: Option<Instant>,
        client: &mut Channel,
    ) -> Answer<Reply> {
        let mut state = self.state();
        loop {
            let dead = state.dead || client.has_ended();
            let it = state.execs.get(exec)?;
            if dead || it.state.ending.is_some() || until.is_some_and(|until| Instant::now() >= until) {
                return Ok(Reply::State(it.seen()));
            }
            let look_again = look_again();
            state = self.wait(state, Some(until.map_or(look_again, |until| until.min(look_again))));
        }
    }

    pub(super) fn input(&self, exec: &str, data: &[u8], eof: bool) -> Answer<Reply> {
        let mut state = self.state();
        let it = state.execs.get(exec)?;
        if !it.command.stdin {
            return Err(fault(
                FaultCode::Invalid,
                format!("exec `{exec}` was started without standard input"),
            ));
        }
        if it.input_closed || it.state.ending.is_some() {
            return Err(file_fault(errno::EPIPE, b"standard input"));
        }
        it.input.extend_from_slice(data);
        it.input_closed = eof;
        drop(state);
        self.0.changed.notify_all();
        Ok(Reply::Done {})
    }

    pub(super) fn signal(&self, exec: &str, signal: i32) -> Answer<Reply> {
        if !(1..=64).contains(&signal) {
            return Err(fault(FaultCode::Invalid, format!("there is no signal {signal}")));
        }
        self.want(exec, Ending::Signalled(signal)).map(|()| Reply::Done {})
    }

    pub(super) fn stop(&self, exec: &str, client: &mut Channel) -> Answer<Reply> {
        self.want(exec, Ending::Stopped)?;
        self.wait_for_end(exec, None, client)
    }

    /// Ends everything started before an epoch, and waits until it has ended.
    pub(super) fn stop_before(&self, epoch: u64) {
        let mut state = self.state();
        for exec in state.execs.0.values_mut().filter(|exec| exec.epoch < epoch) {
            exec.wanted.get_or_insert(Ending::Stopped);
        }
        self.0.changed.notify_all();
        let left = |exec: &Exec| exec.epoch < epoch && exec.state.ending.is_none();
        while !state.dead && state.execs.0.values().any(left) {
            state = self.wait(state, None);
        }
    }

    pub(super) fn resize(&self, exec: &str) -> Answer<Reply> {
        match self.state().execs.get(exec)?.command.terminal {
            Some(_) => Ok(Reply::Done {}),
            None => Err(fault(FaultCode::Invalid, format!("exec `{exec}` has no terminal"))),
        }
    }

    pub(super) fn want(&self, exec: &str, ending: Ending) -> Answer<()> {
        self.state().execs.get(exec)?.wanted.get_or_insert(ending);
        self.0.changed.notify_all();
        Ok(())
    }

    fn perform(&self, exec: &str, deeds: Vec<Deed>, deadline: Option<Instant>) {
        let ending = deeds
            .into_iter()
            .find_map(|deed| self.perform_one(exec, deed, deadline))
            .unwrap_or(Ending::Exited(0));
        if let Ok(it) = self.state().execs.get(exec) {
            it.finish(ending);
        }
        self.0.changed.notify_all();
    }

    /// Returns how the command ended, if this deed ended it.
    fn perform_one(&self, exec: &str, deed: Deed, deadline: Option<Instant>) -> Option<Ending> {
        let until = match deed {
            Deed::Sleep(time) => Some(Instant::now() + time),
            _ => None,
        };
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let dead = state.dead;
            let shown = match &deed {
                Deed::Show(path) => state.files.contents(path),
                Deed::Names => Some(state.files.names(WORKSPACE.as_bytes())),
                _ => None,
            };
            let it = state.execs.get(exec).ok()?;
            if dead || it.wanted.is_some() {
                return Some(it.wanted.unwrap_or(Ending::Signalled(9)));
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Some(Ending::TimedOut);
            }
            match &deed {
                Deed::Exit(code) => return Some(Ending::Exited(*code)),
                Deed::Say(stream, text) => {
                    it.say(*stream, text.clone());
                    return None;
                }
                Deed::Show(_) | Deed::Names => match shown {
                    Some(data) => {
                        it.say(Stream::Stdout, data);
                        return None;
                    }
                    None => return Some(Ending::Exited(1)),
                },
                Deed::Sleep(_) if until.is_some_and(|until| now >= until) => return None,
                Deed::Echo if !it.input.is_empty() => {
                    let data = std::mem::take(&mut it.input);
                    it.say(Stream::Stdout, data);
                    self.0.changed.notify_all();
                }
                Deed::Echo if it.input_closed => return None,
                Deed::Sleep(_) | Deed::Echo => {
                    let wake = [until, deadline].into_iter().flatten().min();
                    state = self.wait(state, wake);
                }
            }
        }
    }
}

/// Returns when a waiting thread looks again whether its client is there.
fn look_again() -> Instant {
    Instant::now() + Duration::from_millis(5)
}
