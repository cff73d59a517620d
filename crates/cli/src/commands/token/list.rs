//! `coracle token list`: all tokens, invalid ones included, oldest first.

use std::time::Duration;

use coracle::assemble;
use coracle_core::Timestamp;
use coracle_core::token::Token;

use super::View;
use crate::commands::ps::age;
use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;
use crate::table::Columns;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn carry_out(context: &Context, _args: Args) -> Result<Exit, Stop> {
    let tokens = assemble::tokens(context.config()?)?.list()?;
    let now = context.now();
    if context.json {
        stdout::json(&tokens.iter().map(|token| View::of(token, now)).collect::<Vec<_>>())?;
        return Ok(Exit::SUCCESS);
    }
    let mut table =
        Columns::new(["TOKEN", "TENANT", "ALLOW", "STATE", "ENDS", "AGE", "LABEL"]).spare(&["AGE"]);
    for token in &tokens {
        table.row([
            token.id.to_string(),
            token.tenant.to_string(),
            token.scope.to_string(),
            token.status(now).as_str().to_owned(),
            ends(token, now),
            age(now.since(token.created_at)),
            token.label.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table.print()?;
    Ok(Exit::SUCCESS)
}

fn ends(token: &Token, now: Timestamp) -> String {
    match token.expires_at {
        None => "never".to_owned(),
        Some(end) if end.since(now) == Duration::ZERO => "-".to_owned(),
        Some(end) => format!("in {}", age(end.since(now))),
    }
}
