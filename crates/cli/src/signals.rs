//! Signals to coracle while a command runs: passed on to the command, or turned into its end.

use std::sync::{Arc, OnceLock};

use coracle::{Error, Result};
use coracle_core::{ExecId, SandboxId};
use coracle_engine::{Caller, Control, Engine};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator;

use super::exit::Exit;
use super::{stderr, terminal};

/// What happens to the command when coracle gets a signal to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tie {
    /// It runs on.
    Loose,
    /// It ends: the guest ends it when our connection is gone.
    Client,
    /// It ends, because its sandbox is removed with it.
    Bound,
    /// It gets a hangup, as from a terminal.
    Terminal,
}

/// Signals that wait to be handled instead of ending the process.
#[derive(Debug)]
pub struct Caught {
    signals: iterator::Signals,
    tie: Tie,
}

/// The exec that gets the signals.
#[derive(Debug, Clone)]
pub struct Target {
    pub engine: Engine,
    pub caller: Caller,
    pub sandbox: SandboxId,
    pub exec: ExecId,
}

impl Target {
    pub fn control(&self) -> Result<Control> {
        self.engine.execs().control(&self.caller, &self.sandbox, &self.exec)
    }
}

impl Caught {
    /// Catches from now on the signals that concern a command with this tie.
    pub fn from_now(tie: Tie) -> Result<Self> {
        let wanted: &[i32] = match tie {
            Tie::Loose | Tie::Client => &[SIGINT],
            Tie::Bound | Tie::Terminal => &[SIGINT, SIGTERM, SIGHUP, SIGWINCH],
        };
        let signals = iterator::Signals::new(wanted)
            .map_err(|error| Error::internal("could not watch for signals", error))?;
        Ok(Self { signals, tie })
    }

    /// Returns the first signal so far that would have ended the process.
    pub fn first(&mut self) -> Option<i32> {
        self.signals.pending().find(|signal| *signal != SIGWINCH)
    }

    /// Passes signals on to the exec, on a thread of its own, because the calling thread waits for output. A signal
    /// that would end the process before there is an exec is passed to `before`.
    pub fn pass_on(mut self, target: Arc<OnceLock<Target>>, before: impl Fn(i32) + Send + 'static) {
        std::thread::spawn(move || {
            let mut relay = None;
            for signal in self.signals.forever() {
                match target.get() {
                    Some(target) => {
                        let relay = relay.get_or_insert_with(|| Relay::to(target.clone(), self.tie));
                        // An exec that has just ended refuses; the other thread is about to see its end.
                        let _ = relay.pass(signal);
                    }
                    None if signal != SIGWINCH => before(signal),
                    None => {}
                }
            }
        });
    }
}

struct Relay {
    tie: Tie,
    target: Target,
    control: Option<Control>,
    interrupts: u32,
}

impl Relay {
    fn to(target: Target, tie: Tie) -> Self {
        Self { tie, target, control: None, interrupts: 0 }
    }

    fn pass(&mut self, signal: i32) -> Result<()> {
        match signal {
            SIGWINCH => {
                let size = terminal::size();
                self.control()?.resize(size.rows, size.columns)
            }
            SIGINT => self.interrupt(),
            other => self.end(other),
        }
    }

    /// Passes the first interrupt on to the command; the second one stops it.
    fn interrupt(&mut self) -> Result<()> {
        self.interrupts += 1;
        match self.interrupts {
            1 => self.control()?.signal(SIGINT),
            _ => self.stop(),
        }
    }

    fn end(&mut self, signal: i32) -> Result<()> {
        match self.tie {
            Tie::Loose | Tie::Client | Tie::Bound => self.stop(),
            Tie::Terminal => {
                let hung_up = self.control().and_then(|control| control.signal(SIGHUP));
                terminal::restore();
                if let Err(error) = hung_up {
                    stderr::error(&error);
                }
                Exit::of_signal(signal).leave()
            }
        }
    }

    fn stop(&mut self) -> Result<()> {
        self.control()?.stop(None).map(drop)
    }

    /// Connects when the first signal comes; most commands get none.
    fn control(&mut self) -> Result<&mut Control> {
        let control = match self.control.take() {
            Some(control) => control,
            None => self.target.control()?,
        };
        Ok(self.control.insert(control))
    }
}
