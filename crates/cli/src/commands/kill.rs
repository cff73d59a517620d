//! `coracle kill`: ends every command of sandboxes at once, or sends them a signal. The sandboxes stay.

use coracle::{Error, ExecId, Kind, Result, SandboxId};
use coracle_engine::Engine;
use signal_hook::consts::{
    SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};

use super::stop::{Signalled, reached, stop_all};
use crate::args::SandboxName;
use crate::context::Context;
use crate::exit::Exit;
use crate::for_each::each;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name sandboxes by their ids, their keys, or the beginnings of their ids
    #[arg(value_name = "SBX", required = true)]
    sandboxes: Vec<SandboxName>,
    /// Send this signal, as in HUP or 1, to the commands that run
    #[arg(short, long, value_name = "SIGNAL", default_value = "KILL", value_parser = signal)]
    signal: i32,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    each(context, &args.sandboxes, |engine, sandbox| {
        let signalled = match args.signal {
            SIGKILL => stop_all(context, engine, &sandbox, Some(0))?,
            signal => signal_all(context, engine, &sandbox, signal)?,
        };
        Ok(Signalled { ok: true, sandbox_id: sandbox, signalled })
    })
}

fn signal_all(context: &Context, engine: &Engine, sandbox: &SandboxId, signal: i32) -> Result<Vec<ExecId>> {
    let caller = context.caller()?;
    let mut execs = engine.execs().known(&caller, sandbox)?;
    execs.retain(|exec| exec.running);
    let send = |id: &ExecId| engine.execs().control(&caller, sandbox, id)?.signal(signal);
    let sent = execs.iter().map(|exec| send(&exec.id)).collect();
    reached(execs, sent)
}

/// Reads the name or the number of a signal.
fn signal(text: &str) -> Result<i32> {
    let known = [
        ("HUP", SIGHUP),
        ("INT", SIGINT),
        ("QUIT", SIGQUIT),
        ("KILL", SIGKILL),
        ("USR1", SIGUSR1),
        ("USR2", SIGUSR2),
        ("TERM", SIGTERM),
        ("CONT", SIGCONT),
        ("STOP", SIGSTOP),
        ("TSTP", SIGTSTP),
        ("WINCH", SIGWINCH),
    ];
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let by_name = known.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let by_number = text.parse().ok().filter(|number| (1..=64).contains(number));
    by_name.or(by_number).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        Error::new(Kind::Invalid, format!("`{}` is not a signal", text.escape_debug()))
            .hint(format!("use one of {}, or a number from 1 to 64", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_with_or_without_its_prefix_and_a_number() {
        for text in ["TERM", "SIGTERM", "term", "15"] {
            assert_eq!(signal(text).ok(), Some(SIGTERM), "{text}");
        }
        for text in ["", "0", "65", "-9", "SIG", "NOSUCH"] {
            assert_eq!(signal(text).ok(), None, "{text}");
        }
    }
}
