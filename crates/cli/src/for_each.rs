//! One operation on several sandboxes: an error of one is reported, and the others are still processed.

use coracle::{Result, SandboxId};
use coracle_engine::Engine;
use serde::Serialize;
use serde_json::Value;

use super::args::SandboxName;
use super::context::Context;
use super::exit::Exit;
use super::stop::Stop;
use super::{stderr, stdout};

/// Acts on each sandbox. The document is a list with the given names, also for a single one. With a single sandbox,
/// its error is the error of the call.
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
    let mut documents = Vec::new();
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
        documents.push(named(name, document));
    }
    if context.json {
        stdout::json(&documents)?;
    }
    Ok(exit)
}

fn named(name: &SandboxName, mut document: Value) -> Value {
    if let Value::Object(fields) = &mut document {
        fields.insert("name".to_owned(), name.as_str().into());
    }
    document
}
