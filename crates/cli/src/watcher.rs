//! The observer for a person at the terminal: passes output on, writes notes to standard error, and passes signals
//! and input to the command once it runs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use coracle::{Error, Kind, Result};
use coracle_core::Home;
use coracle_core::image::Step;
use coracle_engine::Engine;
use coracle_engine::call::{Call, Notice, Observer, Placed, Running};
use coracle_engine::follow::Chunk;

use super::exec_output::{self, Gaps};
use super::exit::Exit;
use super::forwarding::{Bound, Route};
use super::session::unusable;
use super::signals::{Caught, Target};
use super::stop::Stop;
use super::{input, missing_walls, refusals, stderr, terminal};

/// How long the call may clean up after a signal.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a command gets from the person, and what the person wants from its sandbox.
#[derive(Debug)]
pub struct Wishes {
    /// Standard input is passed on.
    pub input: bool,
    /// The command has a terminal.
    pub terminal: bool,
    /// Local ports that lead to the sandbox.
    pub ports: Vec<Bound>,
    pub home: Home,
}

/// Watches one command for a person.
pub struct Watcher {
    engine: Engine,
    call: Call,
    wishes: Mutex<Wishes>,
    /// The exec that gets signals, once it runs.
    target: Arc<OnceLock<Target>>,
    /// The signal that ended the call before there was a command.
    signalled: Arc<OnceLock<i32>>,
    state: Mutex<State>,
}

struct State {
    /// Signals that wait to be handled.
    caught: Option<Caught>,
    raw: Option<terminal::Raw>,
    gaps: Gaps,
    /// Why the output could not be passed on.
    stop: Option<Stop>,
}

impl Watcher {
    /// `call` is the one to watch: its observer draws the bars.
    pub fn new(engine: Engine, call: Call, caught: Caught, wishes: Wishes) -> Self {
        let state = State { caught: Some(caught), raw: None, gaps: Gaps::after(0), stop: None };
        Self {
            engine,
            call,
            wishes: Mutex::new(wishes),
            target: Arc::default(),
            signalled: Arc::default(),
            state: Mutex::new(state),
        }
    }

    /// Returns the signal that ended the call before there was a command.
    pub fn signalled(&self) -> Option<i32> {
        self.signalled.get().copied()
    }

    /// Restores the terminal and returns how the call ended: with the output's error, if output could not be passed
    /// on.
    pub fn finish<T>(&self, ended: Result<T>) -> Result<T, Stop> {
        let mut state = self.state();
        // In raw mode, lines of a note would run down the screen like stairs.
        drop(state.raw.take());
        match state.stop.take() {
            Some(stop) => Err(stop),
            None => Ok(ended?),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes signals to the command once there is one; until then they end the call.
    fn pass_signals_on(&self) {
        let Some(mut caught) = self.state().caught.take() else { return };
        let (signalled, cancel) = (self.signalled.clone(), self.call.cancel.clone());
        let end = move |signal: i32| {
            let _ = signalled.set(signal);
            cancel.cancel();
        };
        // Signals that came before this, while there was no command.
        if self.target.get().is_none() {
            caught.first().into_iter().for_each(&end);
        }
        caught.pass_on(self.target.clone(), move |signal| {
            end(signal);
            // The call may wait for a local file that no process writes, which nothing can cut off. What it made ends
            // with it.
            std::thread::sleep(PATIENCE);
            Exit::of_signal(signal).leave()
        });
    }

    /// Forwards the local ports to the sandbox. If the sandbox is gone, the command has ended, and its end is
    /// reported instead.
    fn publish(&self, sandbox: &Placed<'_>) {
        for port in std::mem::take(&mut self.wishes().ports) {
            stderr::note(&format!("`{}` leads to port {} of the sandbox", port.address, port.inside));
            let (engine, caller) = (self.engine.clone(), self.call.caller.clone());
            port.lead_to(Route { engine, caller, sandbox: sandbox.sandbox.clone() }, mpsc::channel().0);
        }
    }
}

impl Observer for Watcher {
    fn step(&self, step: &Step) {
        self.call.observer.step(step);
    }

    fn placed(&self, sandbox: &Placed<'_>) -> Result<()> {
        refusals::say(sandbox.backend, sandbox.refused);
        self.pass_signals_on();
        if self.signalled().is_some() {
            return Err(ended());
        }
        missing_walls::say_once(sandbox.missing, &self.wishes().home);
        self.publish(sandbox);
        Ok(())
    }

    /// Connects the person to the command. Only the caller that started it gives it input.
    fn started(&self, exec: &Running<'_>) -> Result<()> {
        let target = Target {
            engine: self.engine.clone(),
            caller: self.call.caller.clone(),
            sandbox: exec.sandbox.clone(),
            exec: exec.exec.clone(),
        };
        let _ = self.target.set(target.clone());
        self.pass_signals_on();
        let mut state = self.state();
        let wishes = self.wishes();
        if !wishes.input || exec.existing {
            return Ok(());
        }
        if wishes.terminal {
            state.raw = Some(terminal::raw().map_err(unusable)?);
        }
        input::pass_on(target);
        Ok(())
    }

    fn output(&self, chunk: &Chunk) -> Result<()> {
        let mut state = self.state();
        state.gaps.see(chunk);
        exec_output::pass_on(chunk).map_err(|stop| {
            state.stop = Some(stop);
            ended()
        })
    }

    fn notice(&self, notice: &Notice) {
        let untied = "what is started does not end with this process";
        match notice {
            Notice::OldGuest => stderr::note(&format!("the sandbox was made by an older coracle: {untied}")),
            Notice::Untied { reason } => stderr::warning(&format!("{reason}; {untied}")),
            // A command that starts is news enough.
            Notice::Waking { .. } => {}
            Notice::NotRemoved { reason } => stderr::warning(reason),
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

/// Returns the error that ends the call. It is never printed: the cause is kept beside it.
fn ended() -> Error {
    Error::new(Kind::Aborted, "the person has ended it")
}
