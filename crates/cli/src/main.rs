//! The `coracle` binary, the command line: one file for each verb parses its arguments and has the engine carry it
//! out.
//!
//! Standard output is data and standard error is talk. With `--json` it prints exactly one document, an error
//! included; only verbs that go on print one for each piece: `logs`, `events`, `stats --watch`. A verb that lists
//! things prints an array; if some were left out, standard error says so. Output of commands is passed on byte by
//! byte, to terminals too: it may move the cursor. Coracle's own messages have control characters escaped.

mod args;
mod bars;
mod commands;
mod completion;
mod context;
mod digest;
mod exec_output;
mod exit;
mod flag_differences;
mod flag_errors;
mod flags;
mod for_each;
mod foreign_verbs;
mod forwarding;
mod home_files;
mod input;
mod keepers;
mod lock;
mod missing_walls;
mod paint;
mod panics;
mod refusals;
mod remote_helper;
mod seen_notes;
mod session;
mod signals;
mod spare_pool;
mod stderr;
mod stdout;
mod stop;
mod sweep;
mod table;
mod tail;
mod terminal;
mod usage;
mod watcher;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser};
use coracle::config::Flags;
use coracle::{Epoch, RunId};
use coracle_core::printable;

use self::commands::Verb;
use self::context::Context;
use self::exit::Exit;
use self::stop::Stop;
use coracle_service::telemetry::{Life, Telemetry, doors};

/// Run code in sandboxes that belong to exactly one run at a time
#[derive(Debug, Parser)]
#[command(name = "coracle", version, max_term_width = 100, after_help = exit::HELP)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// Flags of every verb, before or after it.
#[derive(Debug, Args)]
struct Global {
    /// Act as this run; also CORACLE_RUN; by default a run of your own
    #[arg(long, global = true, value_name = "RUN")]
    run: Option<RunId>,
    /// Insist on this epoch of the lease; also CORACLE_EPOCH
    #[arg(long, global = true, value_name = "N")]
    epoch: Option<u64>,
    /// Keep all state in this directory; also CORACLE_HOME
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Print one JSON document, errors included
    #[arg(long, global = true)]
    json: bool,
}

fn main() -> ExitCode {
    panics::contain();
    // The panic is printed already. Its usual exit code, 101, could be a command's own.
    std::panic::catch_unwind(|| answer(std::env::args_os().collect())).unwrap_or(Exit::FAILED.into())
}

/// Carries out one call and returns its exit code.
fn answer(arguments: Vec<OsString>) -> ExitCode {
    if completion::answered(&arguments) {
        return ExitCode::SUCCESS;
    }
    if remote_helper::is_meant(&arguments) {
        let context = Context::new(Flags::default(), false);
        let done = remote_helper::carry_out(&context, &arguments);
        context.finish();
        return if done { Exit::SUCCESS.into() } else { Exit::FAILED.into() };
    }
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => execute(cli).into(),
        Err(error) => usage::explain(&error, &Cli::command(), &arguments).into(),
    }
}

fn execute(cli: Cli) -> Exit {
    let json = cli.global.json;
    let mut flags: Flags = cli.global.into();
    if cli.verb.heeds_projects() {
        // Absent in a directory that was removed.
        flags.project = std::env::current_dir().ok();
    }
    let context = Context::new(flags, json);
    let (verb, life) = (cli.verb.name(), cli.verb.life());
    if life == Life::Silent {
        return carry_out(cli.verb, &context);
    }
    // The verb reports wrong settings.
    let settings = context.config().map(|config| config.telemetry.clone()).unwrap_or_default();
    let telemetry = Telemetry::start(&settings, life);
    let exit = match life {
        Life::Service | Life::Daemon | Life::Silent => carry_out(cli.verb, &context),
        Life::Call => telemetry.call(verb, || {
            let exit = carry_out(cli.verb, &context);
            doors::exits(exit.code());
            exit
        }),
    };
    telemetry.end();
    exit
}

fn carry_out(verb: Verb, context: &Context) -> Exit {
    let (json, name) = (context.json, verb.name());
    let done = verb.carry_out(context);
    context.finish();
    match done {
        Ok(exit) => exit,
        Err(Stop::Unheard) => Exit::SUCCESS,
        Err(Stop::Failed(error)) => {
            doors::failed(error.kind);
            context.clear_bars();
            let error = match Cli::command().find_subcommand(name) {
                Some(verb) => flag_errors::in_words_of(verb, error),
                None => error,
            };
            match json {
                true => stdout::error(&error),
                false => stderr::error(&error),
            }
            Exit::of_error(&error)
        }
    }
}

impl From<Global> for Flags {
    fn from(global: Global) -> Self {
        Self { home: global.home, run: global.run, epoch: global.epoch.map(Epoch), project: None }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_verbs_and_flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_says_how_a_sandbox_is_named() {
        fn check(command: &clap::Command) {
            let named = |argument: &&clap::Arg| matches!(argument.get_id().as_str(), "sandbox" | "sandboxes");
            for argument in command.get_arguments().filter(named) {
                assert!(argument.get_help().is_some(), "`{argument}` of `{}`", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }

        check(&Cli::command());
    }

    #[test]
    fn global_flags_stand_before_or_after_the_verb() {
        let before = parse("coracle --run run_a --epoch 3 --json ps").expect("valid").global;
        let after = parse("coracle ps --run run_a --epoch 3 --json").expect("valid").global;

        for global in [before, after] {
            let run = global.run.as_ref().map(RunId::as_str);
            assert_eq!((run, global.epoch, global.json), (Some("run_a"), Some(3), true));
        }
    }

    #[test]
    fn from_the_command_on_everything_is_the_commands() {
        for line in [
            "coracle exec sbx_1 -- gh --json --help",
            "coracle exec sbx_1 gh --json --help",
            "coracle exec -it --timeout 1s sbx_1 gh --json -- --help",
            "coracle run gh --json --help",
            "coracle run --memory 1g -- gh --json",
        ] {
            assert!(!parse(line).expect("valid").global.json, "{line}");
        }
        for line in
            ["coracle exec sbx_1 --json gh", "coracle exec --json sbx_1 -- gh", "coracle run --json gh --x"]
        {
            assert!(parse(line).expect("valid").global.json, "{line}");
        }
        for line in ["coracle exec sbx_1", "coracle exec sbx_1 --", "coracle exec sbx_1 --bogus gh"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn images_and_volumes_have_verbs_of_their_own() {
        for line in [
            "coracle image pull python:3.12 --backend native",
            "coracle image load -",
            "coracle image load /tmp/archive --json",
            "coracle image list --json",
            "coracle image prepull --backend docker",
            "coracle image build -t app:1 -f docker/Dockerfile --build-arg A=b --memory 2g --cpus 0.5 --no-cache .",
            "coracle image remove sha256:0123456789ab",
            "coracle volume list",
            "coracle volume remove cache",
            "coracle run --image python:3.12",
            "coracle close sbx_1 --delete-workspace",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
        for line in [
            "coracle image",
            "coracle image pull",
            "coracle image pull --flag",
            "coracle volume remove ../x",
            "coracle image build .",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_command_may_be_any_bytes_and_an_id_may_not() {
        let odd = || OsString::from_vec(vec![b'a', 0xff]);
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();

        let command = Cli::try_parse_from([words(&["coracle", "run", "--"]), vec![odd()]].concat());
        let id = Cli::try_parse_from([words(&["coracle", "show"]), vec![odd()]].concat());

        assert!(command.is_ok());
        assert!(id.is_err());
    }
}
