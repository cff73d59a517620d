//! What every operation passes before it is carried out.

use coracle_core::Result;

use super::Access;
use crate::call::Call;
use crate::caller::Caller;
use crate::catalogue::{Facts, Scope};
use crate::spans;

impl Access {
    /// Opens the span of an operation, checks that the caller may ask for it, and keeps its deadline. Past
    /// that nothing is done.
    pub(crate) fn performing<T>(
        &self,
        call: &Call,
        facts: &'static Facts,
        deed: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        spans::within(spans::operation(facts.name, call), || {
            self.check_scope(&call.caller, facts)?;
            let _deadline = call.watch_deadline()?;
            deed()
        })
    }

    fn check_scope(&self, caller: &Caller, facts: &Facts) -> Result<()> {
        match facts.scope {
            Scope::Everybody => Ok(()),
            Scope::Home(what) => self.check_own(caller, what),
        }
    }
}
