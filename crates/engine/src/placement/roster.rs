//! Which backends there are: those of the roll-call, and those that exist because they were named.

use std::fmt;
use std::sync::{Arc, OnceLock};

use coracle_core::selection::MACOS_CONTAINER;
use coracle_core::{Backend, Error, Kind, Result};

/// How many may be named in the life of one engine: each keeps a connection, and names come from callers.
const NAMED_MAX: usize = 64;

/// Makes the backend of a name, if there is such a kind. Opens no connection.
pub type Make = dyn Fn(&str) -> Option<Arc<dyn Backend>> + Send + Sync;

/// Names backends that sandboxes are on.
pub type Settled = dyn Fn() -> Vec<String> + Send + Sync;

/// The backends of one engine. Each name leads to the same backend for as long as the engine lives.
pub struct Roster {
    all: Vec<Arc<dyn Backend>>,
    make: Box<Make>,
    settled: Box<Settled>,
    /// Filled from the front and never emptied, so that a backend can be lent out without a lock.
    named: [OnceLock<Arc<dyn Backend>>; NAMED_MAX],
}

impl Roster {
    /// Returns a roster of these alone.
    pub fn of(all: Vec<Arc<dyn Backend>>) -> Self {
        Self::with(all, |_| None)
    }

    /// Returns a roster of these, and of those that are made when they are named.
    pub fn with(
        all: Vec<Arc<dyn Backend>>,
        make: impl Fn(&str) -> Option<Arc<dyn Backend>> + Send + Sync + 'static,
    ) -> Self {
        let settled: Box<Settled> = Box::new(Vec::new);
        Self { all, make: Box::new(make), settled, named: [const { OnceLock::new() }; NAMED_MAX] }
    }

    /// Returns the roster, with what knows which other backends sandboxes of the home are on, records or not.
    pub fn settled_on(mut self, settled: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Self {
        self.settled = Box::new(settled);
        self
    }

    /// Returns the names of backends beside the roll-call that something of the home is on.
    pub fn settled(&self) -> Vec<String> {
        (self.settled)()
    }

    /// Returns the roll-call: what is looked for on every machine.
    pub fn all(&self) -> &[Arc<dyn Backend>] {
        &self.all
    }

    /// Returns the backend of this name. `not_available` if there is no such kind.
    pub fn named(&self, name: &str) -> Result<&Arc<dyn Backend>> {
        let known = self.all.iter().chain(self.named.iter().map_while(OnceLock::get));
        if let Some(backend) = known.into_iter().find(|backend| backend.name() == name) {
            return Ok(backend);
        }
        let made = (self.make)(name).ok_or_else(|| self.unknown(name))?;
        self.keep(made)
    }

    /// Keeps a backend under its own name, unless another thread was faster: then its backend is the one.
    fn keep(&self, made: Arc<dyn Backend>) -> Result<&Arc<dyn Backend>> {
        let slots = self.named.iter().map(|slot| slot.get_or_init(|| made.clone()));
        slots.into_iter().find(|kept| kept.name() == made.name()).ok_or_else(|| {
            Error::new(
                Kind::LimitExceeded,
                format!("could not use `{}`: too many backends were named", made.name()),
            )
            .hint(format!("one process uses at most {NAMED_MAX}; start another"))
        })
    }

    fn unknown(&self, name: &str) -> Error {
        let names: Vec<_> = self.all.iter().map(|backend| backend.name()).collect();
        let what = match name {
            MACOS_CONTAINER => {
                "backend `macos-container` is not available here: only macOS has it".to_owned()
            }
            name => format!("there is no backend `{}`", name.escape_debug()),
        };
        Error::new(Kind::NotAvailable, what)
            .hint(format!("use one of: {}", names.join(", ")))
            .detail("backends", names)
    }
}

impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.all.iter().chain(self.named.iter().map_while(OnceLock::get));
        f.debug_list().entries(known.map(|backend| backend.name())).finish()
    }
}
