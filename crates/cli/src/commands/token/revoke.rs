//! `coracle token revoke`: makes a token invalid, from the next request on.

use coracle::assemble;
use coracle_core::TokenId;

use super::View;
use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The token, as `token list` shows it; not its secret
    #[arg(value_name = "TOKEN")]
    token: TokenId,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let now = context.now();
    let revoked = assemble::tokens(context.config()?)?.revoke(&args.token, now)?;
    if context.json {
        stdout::json(&View::of(&revoked, now))?;
    }
    Ok(Exit::SUCCESS)
}
