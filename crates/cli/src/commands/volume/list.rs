//! `coracle volume list`: the volumes, by name, and the sandboxes that use them.

use coracle_core::SandboxId;
use coracle_core::bytes::Bytes;
use coracle_engine::ops::volume::list;

use crate::commands::ps::age;
use crate::context::Context;
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
        stdout::json(&listed.volumes)?;
        return Ok(Exit::SUCCESS);
    }
    let now = context.now();
    let mut table = Columns::new(["VOLUME", "SIZE", "AT MOST", "AGE", "USED BY"]);
    for volume in listed.volumes {
        let users: Vec<_> = volume.used_by.iter().map(SandboxId::as_str).collect();
        table.row([
            volume.name.to_string(),
            written(volume.size_bytes),
            written(volume.limit_mb.map(|limit| limit << 20)),
            age(now.since(volume.created_at)),
            if users.is_empty() { "-".to_owned() } else { users.join(", ") },
        ]);
    }
    table.print()?;
    Ok(Exit::SUCCESS)
}

fn written(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string())
}
