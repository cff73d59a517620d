//! `coracle repo show`: one repository, its branches and tags.

use std::fmt::Write;

use coracle_core::bytes::Bytes;
use coracle_engine::ops::repo::get;

use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its name or id
    #[arg(value_name = "REPO")]
    repo: String,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let shown = context.engine()?.perform(context.call()?, get::Input { repo: args.repo })?;
    if context.json {
        stdout::json(&shown)?;
        return Ok(Exit::SUCCESS);
    }
    let repo = &shown.repo;
    let default = repo.default_branch.as_ref().map_or("-", |branch| branch.as_str());
    let mut text = format!(
        "name      {}\nid        {}\nsize      {}\ndefault   {default}\n",
        repo.name,
        repo.repo_id,
        Bytes(repo.size_bytes)
    );
    for one in &shown.refs {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}  {}", one.target, one.name);
    }
    stdout::bytes(text.as_bytes())?;
    Ok(Exit::SUCCESS)
}
