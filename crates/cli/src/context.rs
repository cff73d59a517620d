//! What every verb needs: the settings, the engine, the caller, and the form of the output.

use std::cell::{OnceCell, RefCell};
use std::ffi::OsString;
use std::sync::Arc;

use coracle::config::{Config, Flags};
use coracle::{ExecId, Result, SandboxId, assemble};
use coracle_core::{Clock, Spec, Timestamp, image};
use coracle_engine::{Attached, Call, Caller, Engine};

use super::args::{CopyPath, ExecName, SandboxName};
use super::bars::Bars;
use super::{keepers, seen_notes, stderr, sweep};

/// One call of the binary.
#[derive(Debug)]
pub struct Context {
    flags: Flags,
    config: OnceCell<Config>,
    bars: Arc<Bars>,
    /// The engines that were made; the process waits for them at its end.
    engines: RefCell<Vec<Engine>>,
    /// Print one document instead of text for people.
    pub json: bool,
}

impl Context {
    pub fn new(flags: Flags, json: bool) -> Self {
        Self { flags, config: OnceCell::new(), bars: Arc::default(), engines: RefCell::default(), json }
    }

    pub fn flags(&self) -> Flags {
        self.flags.clone()
    }

    /// Returns the settings, read at the first call: help and completions work without a home.
    pub fn config(&self) -> Result<&Config> {
        if let Some(config) = self.config.get() {
            return Ok(config);
        }
        let config = Config::load(self.flags.clone())?;
        Ok(self.config.get_or_init(|| config))
    }

    /// Returns the engine, after a sweep if one is due.
    pub fn engine(&self) -> Result<Engine> {
        let engine = self.untouched_engine()?;
        let config = self.config()?;
        seen_notes::news(&config.home, &config.notes).into_iter().for_each(|note| stderr::note(note));
        sweep::if_due(&engine, &config.home);
        Ok(engine)
    }

    /// Returns the engine without a sweep.
    pub fn untouched_engine(&self) -> Result<Engine> {
        let config = self.config()?;
        let keepers = Arc::new(keepers::Processes { home: config.home.clone() });
        let engine = assemble::engine_with(config, keepers)?;
        self.engines.borrow_mut().push(engine.clone());
        Ok(engine)
    }

    /// Returns an engine without records, to look for what a home that has lost them has on the machine.
    pub fn engine_without_records(&self) -> Result<Engine> {
        let config = self.config()?;
        let keepers = Arc::new(keepers::Processes { home: config.home.clone() });
        assemble::engine_without_records(config, keepers)
    }

    /// Waits until the events of this call are written.
    pub fn finish(&self) {
        self.engines.take().iter().for_each(|engine| engine.records().finish_telling());
    }

    /// Pulls the image of a sandbox before the sandbox is made: until here the person can interrupt without leaving
    /// anything.
    pub fn bring_image(&self, engine: &Engine, spec: &Spec) -> Result<()> {
        match spec.image == image::HOST {
            true => Ok(()),
            false => engine.lifecycle().prepare(spec, &self.call()?),
        }
    }

    /// Clears the progress of work that did not finish.
    pub fn clear_bars(&self) {
        self.bars.clear();
    }

    /// Returns a call of the person, who sees the progress of long work.
    pub fn call(&self) -> Result<Call> {
        Ok(Call::by(self.caller()?).watched_by(self.bars.clone()))
    }

    pub fn caller(&self) -> Result<Caller> {
        Ok(assemble::caller(self.config()?))
    }

    /// Returns the sandbox a person names: by its id, its key, or the beginning of its id.
    pub fn sandbox(&self, engine: &Engine, name: &SandboxName) -> Result<SandboxId> {
        engine.access().sandbox_named(&self.caller()?, name.as_str())
    }

    /// Returns the exec of a sandbox that a person names by its id, or the beginning of it; if none is named, the one
    /// of `run -d`, or the only one.
    pub fn exec(&self, engine: &Engine, sandbox: &SandboxId, name: Option<&ExecName>) -> Result<ExecId> {
        let caller = self.caller()?;
        match name {
            Some(name) => engine.execs().named(&caller, sandbox, name.as_str()),
            None => engine.execs().main(&caller, sandbox),
        }
    }

    /// Returns the path a person means: in the sandbox with the longest key or id before a colon, if there is one.
    pub fn copy_path(&self, text: OsString) -> Result<CopyPath> {
        let readings = CopyPath::readings(&text);
        let plain = CopyPath::try_from(text);
        // Most names contain neither a colon nor a slash, and the next lookup reports a missing sandbox.
        if readings.is_empty() || (readings.len() == 1 && matches!(plain, Ok(CopyPath::Inside { .. }))) {
            return plain;
        }
        let (engine, caller) = (self.engine()?, self.caller()?);
        for (sandbox, path) in readings {
            if engine.access().is_exact_name(&caller, sandbox.as_str())? {
                return Ok(CopyPath::Inside { sandbox, path });
            }
        }
        plain
    }

    /// Connects to the sandbox a person names, for its files.
    pub fn attach(&self, name: &SandboxName) -> Result<Attached> {
        let engine = self.engine()?;
        let sandbox = self.sandbox(&engine, name)?;
        engine.execs().attach(&self.caller()?, &sandbox)
    }

    pub fn now(&self) -> Timestamp {
        assemble::SystemClock.now()
    }
}
