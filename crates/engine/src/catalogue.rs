//! What is known of every operation. One declaration next to its code holds all facts; doors derive from it what they need.

pub mod tools;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use coracle_core::{Error, Kind, Result, SandboxId};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::ops::{self, Operation};
use crate::{Call, Engine};

/// The facts of one operation.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// The name every door has for it.
    pub name: &'static str,
    /// A few words, as a heading.
    pub title: &'static str,
    /// One sentence on what it does.
    pub about: &'static str,
    pub effect: Effect,
    pub repeat: Repeat,
    pub reach: Reach,
    pub set: Set,
    pub scope: Scope,
    pub model: Model,
    pub answer: Answer,
    /// Returns the sandboxes that were made, from an output.
    pub made: fn(&Value) -> Vec<SandboxId>,
    /// Goes on when its client leaves.
    pub outlives_client: bool,
    /// Wakes a sandbox that sleeps, because it needs the guest, or takes it into use.
    pub wakes: bool,
}

/// How much an operation changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Reads,
    /// Adds or changes something; nothing is lost by it.
    Changes,
    /// Something may be gone afterwards.
    Destroys,
}

/// Whether the same input may be sent again when its answer was lost.
///
/// It may where the input says how things shall be (these contents, paused, closed) or where an id in it is used once. It may
/// not where a repeat could remove, start or make something more than the first time did.
#[derive(Debug, Clone, Copy)]
pub enum Repeat {
    Never,
    Always,
    /// It depends on the input.
    If(fn(&Value) -> bool),
}

/// Whether an operation can reach beyond the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Here,
    /// As far as the rules of its network let it.
    World,
}

/// What operations are offered together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// One program in a sandbox of its own.
    Run,
    /// What working in one sandbox takes.
    Code,
    Snapshots,
    Ownership,
    Processes,
    Files,
    Network,
    Inventory,
    Images,
    Volumes,
    Repos,
    /// In no set: only with all.
    Other,
}

/// Who may call an operation at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everybody, each for what is theirs.
    Everybody,
    /// The home's own people: it acts on the machine, or for everybody. The words say what others are refused.
    Home(&'static str),
}

/// What a model has of an operation, below a person's ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Nothing: it would reach files of the machine, or delete what a person gave.
    Hidden,
    /// Every field but those no model has.
    AllFields,
    /// These fields, and no others.
    Fields(&'static [&'static str]),
    /// These fields, and those of a sandbox's spec that the ceiling opens.
    Spec(&'static [&'static str]),
}

/// How long an answer can become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It says little, or takes room for what it carries before it reads that.
    Bounded,
    /// It tells what there is, however much that is: it is measured before it is written.
    Measured,
}

/// What is not declared is the strictest there is: for the home's own people, in no set, and not for models.
impl Facts {
    const fn new(name: &'static str, title: &'static str, about: &'static str, effect: Effect) -> Self {
        let repeat = match effect {
            Effect::Reads => Repeat::Always,
            Effect::Changes | Effect::Destroys => Repeat::Never,
        };
        Self {
            name,
            title,
            about,
            effect,
            repeat,
            reach: Reach::Here,
            set: Set::Other,
            scope: Scope::Home("calling it"),
            model: Model::Hidden,
            answer: Answer::Bounded,
            made: |_| Vec::new(),
            outlives_client: false,
            wakes: false,
        }
    }

    /// Declares an operation that changes nothing, and so can be repeated.
    pub const fn reads(name: &'static str, title: &'static str, about: &'static str) -> Self {
        Self::new(name, title, about, Effect::Reads)
    }

    /// Declares an operation that adds or changes something.
    pub const fn changes(name: &'static str, title: &'static str, about: &'static str) -> Self {
        Self::new(name, title, about, Effect::Changes)
    }

    /// Declares an operation after which something may be gone.
    pub const fn destroys(name: &'static str, title: &'static str, about: &'static str) -> Self {
        Self::new(name, title, about, Effect::Destroys)
    }

    pub const fn repeats(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }

    /// Declares that it goes on when its client leaves: what it started is found again by its id.
    pub const fn outliving_its_client(mut self) -> Self {
        self.outlives_client = true;
        self
    }

    /// Declares that it wakes a sandbox that sleeps. Every operation that needs the guest does.
    pub const fn waking(mut self) -> Self {
        self.wakes = true;
        self
    }

    pub const fn reaching(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }

    pub const fn among(mut self, set: Set) -> Self {
        self.set = set;
        self
    }

    pub const fn within(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    pub const fn for_models(mut self, model: Model) -> Self {
        self.model = model;
        self
    }

    pub const fn answering(mut self, answer: Answer) -> Self {
        self.answer = answer;
        self
    }

    pub const fn making(mut self, made: fn(&Value) -> Vec<SandboxId>) -> Self {
        self.made = made;
        self
    }

    /// Tells whether this input may be carried out once more without doing more than the first time.
    pub fn is_repeatable(&self, input: &Value) -> bool {
        match self.repeat {
            Repeat::Never => false,
            Repeat::Always => true,
            Repeat::If(holds) => holds(input),
        }
    }
}

/// Reads the id of a sandbox, or a list of them, from a place in an output.
pub fn sandboxes_in(place: &Value) -> Vec<SandboxId> {
    let several = place.as_array().into_iter().flatten();
    several.chain([place]).filter_map(|id| id.as_str()?.parse().ok()).collect()
}

/// An operation in the catalogue: its facts, and how it is carried out from JSON to JSON.
#[derive(Clone)]
pub struct Entry {
    pub facts: &'static Facts,
    schemas: fn() -> Value,
    carry_out: Arc<CarryOut>,
}

type CarryOut = dyn Fn(&Engine, &Call, Value) -> Result<Value> + Send + Sync;

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&self.facts.name).finish()
    }
}

impl Entry {
    /// Returns the entry of an operation of the engine's.
    pub fn of<O>() -> Self
    where
        O: Operation + DeserializeOwned + JsonSchema + 'static,
        O::Output: Serialize + JsonSchema,
    {
        Self::doing::<O, O::Output>(O::FACTS, |engine, call, input: O| input.carry_out(engine, call))
    }

    /// Returns the entry of an operation that a crate above the engine carries out.
    pub fn doing<Input, Output>(
        facts: &'static Facts,
        carry_out: impl Fn(&Engine, &Call, Input) -> Result<Output> + Send + Sync + 'static,
    ) -> Self
    where
        Input: DeserializeOwned + JsonSchema,
        Output: Serialize + JsonSchema,
    {
        let carry_out = move |engine: &Engine, call: &Call, input: Value| {
            let output = carry_out(engine, call, ops::read(facts.name, input)?)?;
            engine.answer(facts, &output)
        };
        Self { facts, schemas: schemas::<Input, Output>, carry_out: Arc::new(carry_out) }
    }

    /// Returns the schemas of its `input` and `output`.
    pub fn schemas(&self) -> Value {
        (self.schemas)()
    }
}

fn schemas<Input: JsonSchema, Output: JsonSchema>() -> Value {
    // What is written may lack fields that are left out where there is nothing to say; what is read has defaults.
    let output =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<Output>();
    json!({"input": schema_for!(Input), "output": output})
}

/// Every operation there is, in the order lists show them.
#[derive(Debug, Clone)]
pub struct Catalogue(Arc<[Entry]>);

impl Catalogue {
    /// Returns the operations of the engine.
    pub fn own() -> &'static Self {
        static OWN: LazyLock<Catalogue> = LazyLock::new(|| Catalogue(ops::all().into()));
        &OWN
    }

    /// Returns these operations and more, of crates above the engine.
    ///
    /// Panics where two have one name: the second could not be called.
    pub fn with(&self, more: impl IntoIterator<Item = Entry>) -> Self {
        let all = Self(self.0.iter().cloned().chain(more).collect());
        let names: BTreeSet<_> = all.names().into_iter().collect();
        assert_eq!(names.len(), all.0.len(), "each operation has a name of its own");
        all
    }

    pub fn all(&self) -> &[Entry] {
        &self.0
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|entry| entry.facts.name).collect()
    }

    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.facts.name == name)
    }

    /// Returns an operation by its name, or an error that names those there are.
    pub fn expect(&self, name: &str) -> Result<&Entry> {
        self.find(name).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> Error {
        let shown: String = name.escape_debug().take(64).collect();
        let names = self.names();
        let near = coracle_core::near::names_like(name, &names);
        let hint = match near.is_empty() {
            true => format!("use one of: {}", names.join(", ")),
            false => format!("did you mean {}?", near.join(" or ")),
        };
        Error::new(Kind::Invalid, format!("there is no operation `{shown}`")).hint(hint)
    }
}

impl Engine {
    /// Returns every operation that can be called.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Returns the same engine, which can carry out more operations: those of crates above it.
    pub fn offering(&self, more: impl IntoIterator<Item = Entry>) -> Self {
        Self { catalogue: self.catalogue.with(more), ..self.clone() }
    }

    /// Carries out an operation by its name.
    ///
    /// A [`crate::Caller`] alone is a call without an observer that nothing ends early.
    pub fn call(&self, call: impl Into<Call>, name: &str, input: Value) -> Result<Value> {
        let (call, entry) = (call.into(), self.catalogue.expect(name)?);
        self.access.performing(&call, entry.facts, || (entry.carry_out)(self, &call, input))
    }

    /// Turns an operation's output into JSON, if there is room for that.
    fn answer<Output: Serialize>(&self, facts: &Facts, output: &Output) -> Result<Value> {
        if facts.answer == Answer::Measured && self.inline.is_counted() {
            self.inline.expect(length(output))?;
        }
        ops::written(facts.name, output)
    }
}

/// Returns how long an output is as text, without making it.
fn length(output: &impl Serialize) -> u64 {
    let mut counted = Counted(0);
    // An output that cannot be written is refused when the answer is.
    let _ = serde_json::to_writer(&mut counted, output);
    counted.0
}

struct Counted(u64);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
