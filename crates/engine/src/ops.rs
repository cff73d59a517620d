//! Every operation of the engine. The doors are made from the catalogue, so no door can do what another cannot.

pub mod event;
pub mod image;
mod parse;
mod read;
pub mod repo;
pub mod sandbox;
pub mod volume;

use coracle_core::{Error, Result};
use serde::Serialize;
use serde_json::Value;

pub use self::parse::{INPUT_MAX, parse};
pub use self::read::read;
use crate::catalogue::{Entry, Facts};
use crate::{Call, Engine};

/// What an input asks for.
pub trait Operation {
    const FACTS: &'static Facts;
    type Output;

    /// Does it without a span or a check of scope: these are left to [`Engine::perform`].
    fn carry_out(self, engine: &Engine, call: &Call) -> Result<Self::Output>;
}

impl Engine {
    /// Carries out what an input asks for. Doors that know which operation they want come this way, the others by
    /// [`Engine::call`]; both open the same span.
    ///
    /// A [`crate::Caller`] alone is a call without an observer that nothing ends early.
    pub fn perform<O: Operation>(&self, call: impl Into<Call>, input: O) -> Result<O::Output> {
        let call = call.into();
        self.access.performing(&call, O::FACTS, || input.carry_out(self, &call))
    }

    /// Takes room for an answer of this many bytes that was made before, or refuses to give it.
    pub fn expect_room(&self, bytes: u64) -> Result<()> {
        self.inline.expect(bytes)
    }
}

/// The roll-call: modules with `FACTS`, `Input`, `Output` and `call`.
macro_rules! operations {
    ($($group:ident::$verb:ident;)+) => {
        /// Returns every operation, in the order lists show them.
        pub(crate) fn all() -> Vec<Entry> {
            vec![$(Entry::of::<$group::$verb::Input>()),+]
        }

        $(impl Operation for $group::$verb::Input {
            const FACTS: &'static Facts = &$group::$verb::FACTS;
            type Output = $group::$verb::Output;

            fn carry_out(self, engine: &Engine, call: &Call) -> Result<Self::Output> {
                $group::$verb::call(engine, call, self)
            }
        })+
    };
}

operations! {
    sandbox::run;
    sandbox::open;
    sandbox::exec;
    sandbox::exec_read;
    sandbox::exec_wait;
    sandbox::exec_stop;
    sandbox::exec_write;
    sandbox::fs_write;
    sandbox::fs_read;
    sandbox::fs_list;
    sandbox::fs_delete;
    sandbox::fs_stat;
    sandbox::fs_move;
    sandbox::close;
    sandbox::list;
    sandbox::get;
    sandbox::stats;
    sandbox::pause;
    sandbox::resume;
    sandbox::fork;
    sandbox::snapshot;
    sandbox::claim;
    sandbox::transfer;
    sandbox::release;
    sandbox::network;
    image::pull;
    image::prepull;
    image::build;
    image::load;
    image::list;
    image::remove;
    event::list;
    repo::add;
    repo::list;
    repo::get;
    repo::pull;
    repo::push;
    repo::remove;
    volume::list;
    volume::remove;
}

/// Turns an operation's output into JSON.
pub fn written<Output: Serialize>(name: &str, output: &Output) -> Result<Value> {
    serde_json::to_value(output)
        .map_err(|error| Error::internal(format!("could not write the reply of `{name}`"), error))
}
