//! `coracle repo list`: the repositories, by name.

use coracle_engine::ops::repo::list;

use crate::commands::ps::age;
use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;
use crate::table::Columns;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn carry_out(context: &Context, _: Args) -> Result<Exit, Stop> {
    let listed = context.engine()?.perform(context.call()?, list::Input {})?;
    if context.json {
        stdout::json(&listed.repos)?;
        return Ok(Exit::SUCCESS);
    }
    let now = context.now();
    let mut table = Columns::new(["REPO", "ID", "TENANT", "AGE"]);
    for repo in listed.repos {
        let tenant = repo.tenant.map_or_else(|| "-".to_owned(), |tenant| tenant.to_string());
        table.row([repo.name.to_string(), repo.id.to_string(), tenant, age(now.since(repo.created_at))]);
    }
    table.print()?;
    Ok(Exit::SUCCESS)
}
