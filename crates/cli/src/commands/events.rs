//! `coracle events`: prints events of sandboxes, and with `--follow` new ones.

use std::time::Duration;

use coracle_core::Timestamp;
use coracle_core::event::{Filter, Kind, Numbered, Page};
use coracle_engine::Engine;
use serde_json::Value;

use crate::args::{SandboxName, Span, span};
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{printable, stderr, stdout};

/// How long one wait for events may take. Nothing depends on it: an interrupt ends the process at any time.
const LOOK: Duration = Duration::from_secs(60);

/// With `--json`, every event is a document on a line of its own.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Follow new events, until interrupted
    #[arg(long, short)]
    follow: bool,
    /// Begin after this event; events count from 1
    #[arg(long, value_name = "N", conflicts_with = "since")]
    since_seq: Option<u64>,
    /// Begin with events of this age, as in `10m`
    #[arg(long, value_name = "TIME", value_parser = span)]
    since: Option<Span>,
    /// Only events of this sandbox
    #[arg(long, value_name = "SBX")]
    sandbox: Option<SandboxName>,
    /// Only events of this kind; can be repeated
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Vec<Kind>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let (engine, caller) = (context.engine()?, context.caller()?);
    let since = beginning(&engine, &args)?;
    let from = args.since.map(|span| ago(context.now(), span.duration));
    let sandbox = args.sandbox.map(|name| context.sandbox(&engine, &name)).transpose()?;
    let filter = Filter { sandbox, kinds: args.kind, from, ..Filter::default() };
    let mut watch = engine.access().watch(&caller, since, filter);
    let wait = if args.follow { LOOK } else { Duration::ZERO };
    loop {
        let before = watch.seq();
        let page = watch.next_batch(wait)?;
        tell_missed(&page, before);
        let end = page.events.is_empty() && !args.follow;
        print(context, page)?;
        if end {
            return Ok(Exit::SUCCESS);
        }
    }
}

/// Returns the number to begin after: with `--follow` the newest, unless a flag says otherwise.
fn beginning(engine: &Engine, args: &Args) -> Result<u64, Stop> {
    match (args.since_seq, args.follow && args.since.is_none()) {
        (Some(seq), _) => Ok(seq),
        (None, true) => Ok(engine.records().newest_event()?),
        (None, false) => Ok(0),
    }
}

fn tell_missed(page: &Page, since: u64) {
    if since > 0 && page.forgotten > since {
        stderr::warning(&format!("of events {} to {} some are forgotten.", since + 1, page.forgotten));
    }
}

fn print(context: &Context, page: Page) -> Result<(), Stop> {
    for numbered in page.events {
        match context.json {
            true => stdout::json_line(&numbered)?,
            false => stdout::line(&line(&numbered))?,
        }
    }
    Ok(())
}

/// Returns an event on one line, in fixed columns.
fn line(Numbered { seq, event }: &Numbered) -> String {
    let run = event.run.as_ref().map_or("-", |run| run.as_str());
    let text = format!(
        "{seq:>6}  {}  {:<17} {:<30} {run:<16} {}",
        event.at,
        event.kind.as_str(),
        event.sandbox_id.as_ref().map_or("-", |sandbox| sandbox.as_str()),
        details(event.exec_id.as_ref().map(|exec| exec.as_str()), &event.details),
    );
    printable::line(text.trim_end())
}

/// Returns the details as words like `code=0`.
fn details(exec: Option<&str>, fields: &serde_json::Map<String, Value>) -> String {
    let mut words: Vec<String> = exec.into_iter().map(str::to_owned).collect();
    for (name, value) in fields {
        match value {
            Value::Null => {}
            Value::Array(values) if values.is_empty() => {}
            Value::String(text) => words.push(format!("{name}={text}")),
            // How an exec ended is one word: `exited code=0`.
            Value::Object(outcome) if name == "outcome" => words.push(outcome_words(outcome)),
            // The outcome has it.
            Value::Number(_) if name == "exit_code" => {}
            other => words.push(format!("{name}={other}")),
        }
    }
    words.join(" ")
}

fn outcome_words(outcome: &serde_json::Map<String, Value>) -> String {
    let kind = outcome.get("kind").and_then(Value::as_str).unwrap_or_default();
    let rest =
        outcome.iter().filter(|(name, _)| *name != "kind").map(|(name, value)| format!(" {name}={value}"));
    format!("{kind}{}", rest.collect::<String>())
}

fn ago(now: Timestamp, span: Duration) -> Timestamp {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(millis))
}

fn kind(text: &str) -> Result<Kind, String> {
    Kind::named(text).ok_or_else(|| {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("use one of: {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_a_line_in_columns() {
        let numbered: Numbered = serde_json::from_value(json!({
            "seq": 12, "at": 1_700_000_000_123u64, "kind": "exec_ended", "sandbox_id": "sbx_1", "run": "run_a",
            "exec_id": "exec_1", "details": {"outcome": {"kind": "exited", "code": 3}, "exit_code": 3,
                "duration_ms": 17, "limits_hit": []},
        }))
        .expect("an event");

        assert_eq!(
            line(&numbered),
            "    12  2023-11-14T22:13:20.123Z  exec_ended        sbx_1                          run_a            \
             exec_1 duration_ms=17 exited code=3"
        );
    }
}
