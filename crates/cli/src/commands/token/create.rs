//! `coracle token create`: makes a token and shows it once. What is stored of it grants nothing.

use coracle::{Error, Result, assemble};
use coracle_core::ceiling::Bounds;
use coracle_core::token::{Grant, Scope, Seed};
use coracle_core::{Ceiling, Policy, TenantId};
use coracle_engine::Catalogue;
use serde::Serialize;

use super::View;
use crate::args::{MaxArgs, Span, span_with_unit};
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{stderr, stdout};
use coracle_http::{git, metrics};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The tenant it is for; only tokens of this tenant see what is made with it
    #[arg(long, value_name = "NAME")]
    tenant: TenantId,
    /// The operations it is good for, with commas between them; `*` stands for any ending
    #[arg(long, value_name = "PATTERNS", default_value = "*")]
    allow: Scope,
    /// How long it is good for, as in `12h` or `30d`; until it is revoked if absent
    #[arg(long, value_name = "SPAN", value_parser = span_with_unit)]
    expires: Option<Span>,
    /// A label to recognise it by
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    #[command(flatten)]
    max: MaxArgs,
}

#[derive(Debug, Serialize)]
struct Made {
    token: String,
    #[serde(flatten)]
    about: View,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    check_scope(&args.allow)?;
    let lasts = args.expires.map(|span| span.duration);
    let (tenant, bounds) = (args.tenant, args.max.bounds()?);
    check_bounds(&context.config()?.policy, &tenant, bounds.as_ref())?;
    let grant = Grant { tenant, scope: args.allow, label: args.label, lasts, bounds };
    let now = context.now();
    let (token, shown) = grant.issue(now, &seed()?)?;
    let tokens = assemble::tokens(context.config()?)?;
    tokens.add(&token)?;
    let printed = match context.json {
        true => stdout::json(&Made { token: shown.reveal(), about: View::of(&token, now) }),
        false => {
            stderr::note(&format!("`{}` is for tenant `{}`; it is not shown again.", token.id, token.tenant));
            stdout::line(&shown.reveal())
        }
    };
    if let Err(stop) = printed {
        // Its secret is lost, or where it should not be.
        tokens.revoke(&token.id, context.now())?;
        stderr::note(&format!("`{}` is revoked, because it could not be printed", token.id));
        return Err(stop);
    }
    Ok(Exit::SUCCESS)
}

/// Refuses bounds that no sandbox of the tenant fits: the mistake would show only when the token is used.
fn check_bounds(policy: &Policy, tenant: &TenantId, bounds: Option<&Bounds>) -> Result<()> {
    let policy = policy.of_tenant(policy.tenants.of(tenant));
    Ceiling::of_model_with_token(bounds, &policy).map(drop)
}

/// Refuses patterns that fit no operation: the mistake would show only when the token is used.
fn check_scope(scope: &Scope) -> Result<()> {
    let names = Catalogue::own().names();
    let fits = |pattern: &&String| {
        let alone = Scope::try_from(vec![(*pattern).clone()]);
        let beside = [metrics::SCOPE, git::FETCH_SCOPE, git::PUSH_SCOPE];
        beside.contains(&pattern.as_str())
            || alone.is_ok_and(|alone| names.iter().any(|name| alone.covers(name)))
    };
    match scope.patterns().iter().find(|pattern| !fits(pattern)) {
        None => Ok(()),
        Some(pattern) => {
            let near = coracle_core::near::names_like(pattern, &names);
            let hint = match near.is_empty() {
                true => "`coracle call --schema` shows every operation there is".to_owned(),
                false => format!("did you mean {}?", near.join(" or ")),
            };
            Err(Error::invalid("allow", format!("has `{pattern}`, which no operation's name fits"))
                .hint(hint))
        }
    }
}

fn seed() -> Result<Seed> {
    let mut seed = Seed { id: [0; 10], secret: [0; 32] };
    let drawn = getrandom::fill(&mut seed.id).and_then(|()| getrandom::fill(&mut seed.secret));
    drawn.map_err(|error| Error::internal("could not get random numbers", error))?;
    Ok(seed)
}
