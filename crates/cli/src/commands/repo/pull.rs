//! `coracle repo pull`: brings branches and tags from a server.

use coracle_core::repo::Oid;
use coracle_engine::ops::repo::pull;

use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;
use crate::table::Columns;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its name or id
    #[arg(value_name = "REPO")]
    repo: String,
    /// The https URL of the other repository
    #[arg(value_name = "URL")]
    url: String,
    /// Take the password for the URL from this environment variable
    #[arg(long, value_name = "VARIABLE")]
    token: Option<String>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let token = args.token.as_deref().map(coracle::config::variable).transpose()?;
    let input = pull::Input { repo: args.repo, url: args.url, token };
    let pulled = context.engine()?.perform(context.call()?, input)?;
    if context.json {
        stdout::json(&pulled)?;
        return Ok(Exit::SUCCESS);
    }
    let mut table = Columns::new(["REF", "OLD", "NEW", "REFUSED"]);
    for change in pulled.refs {
        let short = |id: Option<Oid>| id.map_or_else(|| "-".to_owned(), |id| id.as_str()[..12].to_owned());
        let refused = change.refused.unwrap_or_else(|| "-".to_owned());
        table.row([change.name.to_string(), short(change.old), short(change.new), refused]);
    }
    table.print()?;
    Ok(Exit::SUCCESS)
}
