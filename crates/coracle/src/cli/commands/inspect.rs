//! `coracle inspect`: everything known of one sandbox, as JSON.

pub use super::show::Args;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stdout;
use crate::cli::stop::Stop;

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    stdout::json(&super::show::look(context, &args)?)?;
    Ok(Exit::SUCCESS)
}
