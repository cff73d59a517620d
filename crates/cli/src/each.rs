//! The same for several sandboxes: what fails for one is said, and the others have their turn.

use coracle::{Result, SandboxId};
use coracle_engine::Engine;
use serde::Serialize;
use serde_json::Value;

use super::args::SandboxName;
use super::context::Context;
use super::exit::Exit;
use super::stop::Stop;
use super::{stderr, stdout};

/// Acts on each sandbox. The document is a list, by the names they were called, also of one. That one fails is the failure
/// of the call where it is alone.
pub fn each<Done: Serialize>(
    context: &Context,
    names: &[SandboxName],
    mut act: impl FnMut(&Engine, SandboxId) -> Result<Done>,
) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let mut act_on = |name: &SandboxName| act(&engine, context.sandbox(&engine, name)?);
    if let [name] = names {
        let done = act_on(name)?;
        if context.json {
            stdout::json(&[named(name, serde_json::to_value(done).map_err(std::io::Error::from)?)])?;
        }
        return Ok(Exit::SUCCESS);
    }
    let mut told = Vec::new();
    let mut exit = Exit::SUCCESS;
    for name in names {
        let document = match act_on(name) {
            Ok(done) => serde_json::to_value(done).map_err(std::io::Error::from)?,
            Err(error) => {
                exit = Exit::of_error(&error);
                if !context.json {
                    stderr::error(&error);
                }
                error.to_json()
            }
        };
        told.push(named(name, document));
    }
    if context.json {
        stdout::json(&told)?;
    }
    Ok(exit)
}

fn named(name: &SandboxName, mut document: Value) -> Value {
    if let Value::Object(fields) = &mut document {
        fields.insert("name".to_owned(), name.as_str().into());
    }
    document
}
