//! `coracle config`: every setting and its source.

use coracle::config::{self, Source};
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;
use crate::table::Columns;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn carry_out(context: &Context, Args {}: Args) -> Result<Exit, Stop> {
    let settings = config::settings(context.flags())?;
    if context.json {
        let all = settings.into_iter().map(|setting| {
            (setting.name.to_owned(), json!({"value": setting.value, "source": source(&setting.source)}))
        });
        stdout::json(&Value::Object(all.collect::<Map<_, _>>()))?;
        return Ok(Exit::SUCCESS);
    }
    let mut table = Columns::new(["SETTING", "VALUE", "SOURCE"]);
    for setting in settings {
        table.row([setting.name.to_owned(), setting.value, setting.source.to_string()]);
    }
    table.print()?;
    Ok(Exit::SUCCESS)
}

fn source(source: &Source) -> Value {
    match source {
        Source::Flag => json!("flag"),
        Source::Environment(name) => json!({"environment": name}),
        Source::File(path) => json!({"file": path.to_string_lossy()}),
        Source::Project(path) => json!({"project": path.to_string_lossy()}),
        Source::Default => json!("default"),
    }
}
