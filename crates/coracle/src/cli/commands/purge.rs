//! `coracle purge`: removes everything of this home: sandboxes whoever owns them, images, volumes, logs, the home itself.

use std::io::{self, BufRead, Write};
use std::path::Path;

use coracle::{Error, Kind, Result};
use serde_json::json;

use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stock::Line;
use crate::cli::stop::Stop;
use crate::cli::{belongings, stderr, stdout, terminal};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Exits with 1 if something could not be reached: then the home stays, and doing it again goes on.
pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let home = context.config()?.home.clone();
    if belongings::is_absent(&home)? {
        return report(context, &json!({"purged": true, "sandboxes": 0, "volumes": 0, "left": [], "trouble": []}), &home);
    }
    belongings::expect_home(&home)?;
    if !args.yes {
        confirm(&home)?;
    }
    if let Some(mut line) = Line::open(&home) {
        // What it keeps ready is removed by it, or by us.
        let _ = line.end();
    }
    let engine = context.untouched_engine()?;
    let purged = engine.purge()?;
    drop(engine);
    let left = match purged.trouble.is_empty() {
        true => belongings::remove(&home)?,
        false => Vec::new(),
    };
    let done = purged.trouble.is_empty();
    let told = json!({
        "purged": done, "sandboxes": purged.sandboxes, "volumes": purged.volumes, "left": left, "trouble": purged.trouble,
    });
    report(context, &told, &home)
}

fn report(context: &Context, told: &serde_json::Value, home: &Path) -> Result<Exit, Stop> {
    let words = |name: &str| -> Vec<String> {
        let list = told[name].as_array().into_iter().flatten();
        list.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let (left, trouble) = (words("left"), words("trouble"));
    match context.json {
        true => stdout::json(told)?,
        false => {
            trouble.iter().for_each(|trouble| stderr::warning(trouble));
            left.iter().for_each(|name| stderr::note(&format!("`{name}` stays: it is not coracle's.")));
            let (sandboxes, volumes) = (&told["sandboxes"], &told["volumes"]);
            stdout::line(&match trouble.is_empty() {
                true => format!("removed {sandboxes} sandboxes, {volumes} volumes and the home `{}`", home.display()),
                false => format!("removed {sandboxes} sandboxes; the home `{}` stays, do it again", home.display()),
            })?;
        }
    }
    Ok(if trouble.is_empty() { Exit::SUCCESS } else { Exit::FOUND })
}

/// Asks the person at the terminal; where there is none, `--yes` is needed.
fn confirm(home: &Path) -> Result<()> {
    let unsure = || {
        Error::new(Kind::Invalid, format!("nobody said that `{}` shall be removed", home.display()))
            .hint("say `--yes` if everything in it, its volumes included, shall go")
    };
    if !terminal::is_typed_at() {
        return Err(unsure());
    }
    let mut stderr = io::stderr().lock();
    let asked = write!(
        stderr,
        "This removes every sandbox of `{}`, whoever owns it, all images and volumes, and the home.\nType `yes` to go on: ",
        home.display()
    );
    let _ = asked.and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match read.is_ok() && answer.trim() == "yes" {
        true => Ok(()),
        false => Err(unsure()),
    }
}
