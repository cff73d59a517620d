//! `event_list`: returns what happened to sandboxes, from any place on, and waits for more if asked to.

use std::time::Duration;

use coracle_core::event::{Filter, Kind, Numbered};
use coracle_core::{Error, Result, SandboxId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Answer, Facts, Model, Scope, Set};
use crate::records::watch::{BATCH_MAX, Wanted};
use crate::{Call, Engine};

const MAX_DEFAULT: usize = 100;
/// A client that waits longer asks again: a connection that is silent for longer is taken for a dead one by too many.
const WAIT_MAX: u64 = 60_000;

pub const FACTS: Facts = Facts::reads(
    "event_list",
    "List what happened",
    "Returns what happened to sandboxes, and waits for more if asked to",
)
.among(Set::Inventory)
.answering(Answer::Measured)
.within(Scope::Everybody)
.for_models(Model::AllFields);

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Returns events behind this number; they count from 1.
    #[serde(default)]
    pub since_seq: u64,
    /// Leaves out what happened before this time, in milliseconds since 1970.
    #[serde(default)]
    pub since_at: Option<Timestamp>,
    /// Only those of this sandbox.
    #[serde(default)]
    pub sandbox_id: Option<SandboxId>,
    /// Only those of these kinds; all if empty.
    #[serde(default)]
    #[schemars(length(max = 25))]
    pub kinds: Vec<Kind>,
    /// At most so many, 1 to 1000; 100 if absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub max: Option<usize>,
    /// Waits up to so long, at most a minute, until there is one.
    #[serde(default)]
    #[schemars(range(max = 60_000))]
    pub wait_ms: Option<u64>,
}

impl Input {
    /// Returns what it leaves out.
    pub fn filter(&self) -> Filter {
        let (sandbox, kinds) = (self.sandbox_id.clone(), self.kinds.clone());
        Filter { sandbox, kinds, from: self.since_at, ..Filter::default() }
    }
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub events: Vec<Numbered>,
    /// What to ask for next as `since_seq`.
    pub next_seq: u64,
    /// Events up to this number are forgotten, zero if none is; where one sees everybody's, some of them.
    pub forgotten_seq: u64,
    /// Some events behind `since_seq` were forgotten before they could be returned.
    pub missed: bool,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let caller = &call.caller;
    let max = input.max.unwrap_or(MAX_DEFAULT);
    if !(1..=BATCH_MAX).contains(&max) {
        return Err(Error::invalid("max", format!("must be 1 to {BATCH_MAX}")));
    }
    let wait = input.wait_ms.unwrap_or(0);
    if wait > WAIT_MAX {
        return Err(Error::invalid("wait_ms", format!("must be at most {WAIT_MAX}")));
    }
    if caller.ceiling.as_ref().is_some_and(|ceiling| ceiling.is_of_model()) {
        // What happens to the person's own sandboxes is not a model's to know.
        let Some(id) = &input.sandbox_id else {
            return Err(Error::invalid("sandbox_id", "is missing").hint("name a sandbox of yours"));
        };
        engine.access().find_for(caller, id)?;
    }
    let mut watch = engine.access().watch(caller, input.since_seq, input.filter());
    let wanted = Wanted::Until(call.cancel.clone());
    let page = watch.next_few_while(max, &wanted, Duration::from_millis(wait))?;
    if page.events.is_empty() {
        call.cancel.check()?;
    }
    Ok(Output {
        events: page.events,
        next_seq: page.next,
        forgotten_seq: page.forgotten,
        // Who begins at the beginning wants what there is.
        missed: input.since_seq > 0 && page.forgotten > input.since_seq,
    })
}
