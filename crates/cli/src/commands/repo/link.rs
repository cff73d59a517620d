//! `coracle repo link`: lets git find the binary for `coracle://NAME`.

use std::path::PathBuf;

use coracle::Error;

use crate::context::Context;
use crate::exit::Exit;
use crate::remote_helper::NAME;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// A directory of your PATH
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let link = args.directory.join(NAME);
    let failed = |error| Error::internal(format!("could not make the link `{}`", link.display()), error);
    let program = std::env::current_exe().map_err(failed)?;
    match std::fs::read_link(&link) {
        Ok(target) if target == program => {}
        Ok(_) => {
            std::fs::remove_file(&link).map_err(failed)?;
            std::os::unix::fs::symlink(&program, &link).map_err(failed)?;
        }
        Err(_) => std::os::unix::fs::symlink(&program, &link).map_err(failed)?,
    }
    match context.json {
        true => stdout::json(&serde_json::json!({ "link": link, "program": program }))?,
        false => stdout::line(&link.display().to_string())?,
    }
    Ok(Exit::SUCCESS)
}
