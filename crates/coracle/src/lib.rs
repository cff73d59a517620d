//! Sandboxes for AI agents: each is owned by exactly one run at a time.
//!
//! No daemon is needed: a [`Coracle`] works on a home directory, and any number of processes may share one.
//!
//! ```no_run
//! use coracle::{Command, Config, Coracle, SpecInput};
//!
//! fn main() -> coracle::Result<()> {
//!     let coracle = Coracle::open(Config::load(Default::default())?)?;
//!     let sandbox = coracle.create(SpecInput::default())?;
//!     sandbox.write_file("numbers.txt", b"6 7\n")?;
//!     let ran = sandbox.exec(["sh", "-c", "read a b < numbers.txt; echo $((a * b))"])?;
//!     assert_eq!((ran.progress.exit_code, ran.stdout.as_slice()), (Some(0), &b"42\n"[..]));
//!     sandbox.close()
//! }
//! ```
//!
//! A [`Sandbox`] is the ownership of a sandbox. It cannot be copied, and giving it away consumes it:
//!
//! ```compile_fail,E0382
//! # fn lent(sandbox: coracle::Sandbox, to: coracle::RunId) -> coracle::Result<()> {
//! let lent = sandbox.lend(to)?;
//! sandbox.exec(["true"])?; // used after it was lent
//! # Ok(())
//! # }
//! ```
//!
//! A command that fails, times out or is killed is a result, not an [`Error`].

pub mod assemble;
pub mod ballast;
mod command;
pub mod config;
mod files;
mod sandbox;

pub use coracle_core::image::Stored;
pub use coracle_core::image::build::RecipeInput;
pub use coracle_core::spec::SpecInput;
pub use coracle_core::{Epoch, Error, ExecId, Home, Kind, Result, RunId, SandboxId, SessionKey};
pub use coracle_engine::ops::sandbox::list::Summary;
pub use coracle_engine::ops::sandbox::{get, run};
pub use coracle_engine::{Captured, Control, Depth, Engine, Entries, FileEntry, Follow, Links, NewFile};

pub use self::command::Command;
pub use self::config::Config;
pub use self::files::Files;
pub use self::sandbox::{Lent, Sandbox, StillLent};

use std::sync::Arc;

use coracle_engine::ops::image;
use coracle_engine::ops::sandbox::{claim, list, open};
use coracle_engine::{Caller, SparePool};

/// One home of coracle, used as one run. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Coracle {
    engine: Engine,
    caller: Caller,
    /// Makes spares for as long as a clone of this home is open.
    pool: Option<Arc<SparePool>>,
}

/// Enough for a burst of a few; each waiting spare takes half a megabyte.
const SPARES: usize = 6;

impl Coracle {
    /// Opens a home; makes it if it does not exist.
    pub fn open(config: Config) -> Result<Self> {
        let caller = assemble::caller(&config);
        let engine = assemble::engine(&config)?;
        let spares = config.spares.unwrap_or(SPARES);
        let pool = (spares > 0).then(|| Arc::new(engine.lifecycle().keep_spares(spares)));
        Ok(Self { engine, caller, pool })
    }

    /// Returns the same home, used as another run.
    pub fn acting_as(&self, run: RunId) -> Self {
        let caller = Caller::acting_as(run);
        Self { engine: self.engine.clone(), caller, pool: self.pool.clone() }
    }

    /// Tells whether sandboxes can be made on this machine.
    pub fn is_available(&self) -> bool {
        self.engine.placement().backends().iter().any(|backend| backend.probe().available)
    }

    /// Makes a new sandbox.
    pub fn create(&self, spec: SpecInput) -> Result<Sandbox> {
        self.open_input(open::Input { spec, ..open::Input::default() })
    }

    /// Returns the sandbox with this key; makes it if there is none.
    ///
    /// Any number of callers may ask at the same time: one sandbox is made. If one exists already, written fields of
    /// the spec that differ from it are a conflict.
    pub fn open_session(&self, key: SessionKey, spec: SpecInput) -> Result<Sandbox> {
        self.open_input(open::Input { session_key: Some(key), replace: false, spec })
    }

    /// Closes the sandbox with this key, if there is one, and makes a new one.
    pub fn replace_session(&self, key: SessionKey, spec: SpecInput) -> Result<Sandbox> {
        self.open_input(open::Input { session_key: Some(key), replace: true, spec })
    }

    /// Takes a sandbox that this run owns already, or that has no owner.
    pub fn claim(&self, id: &SandboxId) -> Result<Sandbox> {
        let claimed = self.engine.perform(&self.caller, claim::Input { sandbox_id: id.clone() })?;
        Sandbox::enter(self, claimed.sandbox_id, claimed.epoch)
    }

    /// Runs one command in a sandbox of its own, which is removed afterwards.
    pub fn run(&self, input: run::Input) -> Result<run::Output> {
        self.engine.perform(&self.caller, input)
    }

    /// Returns how many spares are ready.
    pub fn spares(&self) -> usize {
        self.pool.as_ref().map_or(0, |pool| pool.ready())
    }

    /// Lists the sandboxes that have not ended, of any owner; the newest thousand where there are more.
    pub fn list(&self) -> Result<Vec<Summary>> {
        Ok(self.engine.perform(&self.caller, list::Input::default())?.sandboxes)
    }

    /// Pulls an image, so that the first sandbox made from it does not have to wait. Does not pull a stored one
    /// again.
    pub fn pull(&self, reference: &str) -> Result<Stored> {
        let input = image::pull::Input { reference: reference.to_owned(), backend: None };
        self.engine.perform(&self.caller, input)
    }

    /// Builds an image from a Dockerfile, for the preferred backend.
    pub fn build_image(&self, recipe: RecipeInput) -> Result<Stored> {
        let input = image::build::Input { recipe, backend: None };
        Ok(self.engine.perform(&self.caller, input)?.image)
    }

    /// Lists the stored images, by name.
    pub fn images(&self) -> Result<Vec<Stored>> {
        Ok(self.engine.perform(&self.caller, image::list::Input::default())?.images)
    }

    /// Carries out any operation by its name, as `coracle call` does.
    pub fn call(&self, operation: &str, input: serde_json::Value) -> Result<serde_json::Value> {
        self.engine.call(&self.caller, operation, input)
    }

    /// Returns the underlying engine, for what has no method here.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn open_input(&self, input: open::Input) -> Result<Sandbox> {
        let opened = self.engine.perform(&self.caller, input)?;
        Sandbox::enter(self, opened.sandbox_id, opened.epoch)
    }

    fn under(&self, epoch: Option<Epoch>) -> Caller {
        self.caller.under(epoch)
    }
}
