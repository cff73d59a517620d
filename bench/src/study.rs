//! Something that is measured once, in its own way: crowds, rates, and what takes seconds to arrange.

use anyhow::Result;

use crate::measured::Measured;

/// An arrangement that is made, measured and undone.
pub trait Study {
    /// Returns the names of all it measures.
    fn names(&self) -> &'static [&'static str];

    /// Measures, and leaves nothing behind, whether it succeeds or not.
    fn carry_out(self: Box<Self>, measured: &mut Measured) -> Result<()>;
}
