//! `coracle inspect`: everything known about one sandbox, as JSON.

pub use super::show::Args;
use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    stdout::json(&super::show::look(context, &args)?)?;
    Ok(Exit::SUCCESS)
}
