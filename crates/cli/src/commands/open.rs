//! `coracle open`: returns the sandbox with a key; makes it if there is none.

use coracle::{SessionKey, SpecInput};
use coracle_core::{Record, State};
use coracle_engine::ops::sandbox::open;

use crate::args::{Ports, SpecArgs, published};
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{forwarding, missing_walls, refusals, stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Find the sandbox again by this name
    #[arg(long, value_name = "NAME", visible_alias = "name")]
    key: Option<SessionKey>,
    // Parsed only to say what to do instead.
    #[arg(short, long, value_name = "LOCAL[:PORT]", value_parser = published, hide = true)]
    publish: Vec<Ports>,
    /// Close the sandbox that has this key, if there is one, and make a new one
    #[arg(long, requires = "key")]
    replace: bool,
    /// Run commands as this user of the sandbox instead of the image's, unless they say otherwise
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
    #[command(flatten)]
    spec: SpecArgs,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    forwarding::expect_none(&args.publish)?;
    let spec = SpecInput { user: args.user, ..args.spec.input()? };
    let (engine, caller) = (context.engine()?, context.caller()?);
    let input = open::Input { session_key: args.key.clone(), replace: args.replace, spec };
    let opened = engine.perform(context.call()?, input)?;
    if opened.created {
        let before = args.key.map(|key| engine.access().ended_with_key(&caller, &key)).transpose()?.flatten();
        if let Some(Record { id, state: State::Expired, .. }) = before {
            stderr::note(&format!(
                "sandbox `{id}` had this name and expired; this one starts without its files"
            ));
        }
        refusals::say(&opened.backend, &opened.refused);
        missing_walls::say_once(&opened.missing, &context.config()?.home);
    }
    let printed = match context.json {
        true => stdout::json(&opened),
        false => stdout::line(opened.sandbox_id.as_str()),
    };
    stdout::or_name(printed, "sandbox", [&opened.sandbox_id])?;
    Ok(Exit::SUCCESS)
}
