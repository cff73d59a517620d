//! `coracle call`: any operation, for scripts. The reply or the error object is on standard output, `--json` or not.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;

use coracle::{Error, Result};
use coracle_engine::{Catalogue, ops};
use serde_json::Value;

use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The operation, such as sandbox_open; a command that sandbox_exec starts outlives this call
    #[arg(value_name = "OP", required_unless_present = "schema")]
    operation: Option<String>,
    /// Its input, nothing if absent; `-` reads it from standard input
    #[arg(value_name = "JSON", conflicts_with = "schema", default_value = "{}")]
    input: OsString,
    /// Print the schemas of the operation, or of all
    #[arg(long)]
    schema: bool,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let replied = match args.schema {
        true => schema(args.operation.as_deref()),
        false => call(context, args),
    };
    match replied {
        Ok(reply) => stdout::json(&reply).map(|()| Exit::SUCCESS),
        Err(error) => stdout::json(&error.to_json()).map(|()| Exit::FAILED),
    }
}

fn call(context: &Context, args: Args) -> Result<Value> {
    let input = ops::parse(&text(args.input)?)?;
    let operation = args.operation.unwrap_or_default();
    context.engine()?.call(context.call()?, &operation, input)
}

fn text(input: OsString) -> Result<Vec<u8>> {
    if input != "-" {
        return Ok(input.into_vec());
    }
    let mut text = Vec::new();
    // One byte too many is enough to be refused for its length.
    let read = std::io::stdin().lock().take(ops::INPUT_MAX as u64 + 1).read_to_end(&mut text);
    read.map_err(|error| Error::internal("could not read standard input", error))?;
    Ok(text)
}

fn schema(operation: Option<&str>) -> Result<Value> {
    let catalogue = Catalogue::own();
    match operation {
        Some(name) => Ok(catalogue.expect(name)?.schemas()),
        None => {
            let all = catalogue.all().iter().map(|entry| (entry.facts.name.to_owned(), entry.schemas()));
            Ok(Value::Object(all.collect()))
        }
    }
}
