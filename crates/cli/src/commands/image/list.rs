//! `coracle image list`: the stored images, by name.

use coracle_core::bytes::Bytes;
use coracle_engine::ops::image::list;

use crate::commands::ps::age;
use crate::context::Context;
use crate::digest;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;
use crate::table::Columns;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// List those of this backend
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let input = list::Input { backend: args.backend };
    let listed = context.engine()?.perform(context.call()?, input)?;
    if context.json {
        stdout::json(&listed.images)?;
        return Ok(Exit::SUCCESS);
    }
    let now = context.now();
    let mut table = Columns::new(["REFERENCE", "DIGEST", "SIZE", "PULLED"]);
    for stored in listed.images {
        table.row([
            stored.reference,
            digest::short(&stored.digest).to_owned(),
            Bytes(stored.size_bytes).to_string(),
            format!("{} ago", age(now.since(stored.pulled_at))),
        ]);
    }
    table.print()?;
    Ok(Exit::SUCCESS)
}
