//! `coracle repo push`: pushes a branch to a server.

use coracle_core::repo::BranchName;
use coracle_engine::ops::repo::push;

use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its name or id
    #[arg(value_name = "REPO")]
    repo: String,
    /// The https URL of the other repository
    #[arg(value_name = "URL")]
    url: String,
    /// The branch to push
    #[arg(value_name = "BRANCH")]
    branch: BranchName,
    /// Push to this branch there
    #[arg(long, value_name = "BRANCH")]
    to: Option<BranchName>,
    /// Take the password for the URL from this environment variable
    #[arg(long, value_name = "VARIABLE")]
    token: Option<String>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let token = args.token.as_deref().map(coracle::config::variable).transpose()?;
    let input = push::Input { repo: args.repo, url: args.url, branch: args.branch, to: args.to, token };
    let pushed = context.engine()?.perform(context.call()?, input)?;
    if context.json {
        stdout::json(&pushed)?;
    }
    Ok(Exit::SUCCESS)
}
