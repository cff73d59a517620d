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

/// Acts on each sandbox. One alone is answered as if there could be no others; of several the document is a list, by the
/// names they were called.
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
            stdout::json(&done)?;
        }
        return Ok(Exit::SUCCESS);
    }
    let mut told = Vec::new();
    let mut exit = Exit::SUCCESS;
    for name in names {
        let mut document = match act_on(name) {
            Ok(done) => serde_json::to_value(done).map_err(std::io::Error::from)?,
            Err(error) => {
                exit = Exit::of_error(&error);
                if !context.json {
                    stderr::error(&error);
                }
                error.to_json()
            }
        };
        if let Value::Object(fields) = &mut document {
            fields.insert("name".to_owned(), name.as_str().into());
        }
        told.push(document);
    }
    if context.json {
        stdout::json(&told)?;
    }
    Ok(exit)
}
