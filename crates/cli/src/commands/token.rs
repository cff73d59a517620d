//! `coracle token`: the tokens with which clients authenticate to `coracle serve` over the network.

use clap::Subcommand;
use coracle_core::Timestamp;
use coracle_core::ceiling::Bounds;
use coracle_core::token::{Token, TokenStatus};
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;

mod create;
mod list;
mod revoke;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// The operations on tokens.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a token and print it; it is shown this once
    Create(Box<create::Args>),
    /// List tokens, without their secrets
    List(list::Args),
    /// Make a token invalid
    Revoke(revoke::Args),
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    match args.verb {
        Verb::Create(args) => create::carry_out(context, *args),
        Verb::List(args) => list::carry_out(context, args),
        Verb::Revoke(args) => revoke::carry_out(context, args),
    }
}

/// A token as documents show it: everything but what concerns its secret.
#[derive(Debug, Serialize)]
struct View {
    token_id: String,
    tenant: String,
    allow: Vec<String>,
    label: Option<String>,
    state: TokenStatus,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    /// The bounds of its sandboxes.
    max: Option<Bounds>,
}

impl View {
    fn of(token: &Token, now: Timestamp) -> Self {
        Self {
            token_id: token.id.to_string(),
            tenant: token.tenant.to_string(),
            allow: token.scope.patterns().to_vec(),
            label: token.label.clone(),
            state: token.status(now),
            created_at: token.created_at,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
            max: token.bounds.clone(),
        }
    }
}
