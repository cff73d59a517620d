//! `coracle shell`: a shell in a sandbox, on the terminal if there is one.

use coracle_engine::{ExecRequest, Stdin, Timeout};

use crate::args::SandboxName;
use crate::context::Context;
use crate::exit::Exit;
use crate::session::Session;
use crate::signals::Tie;
use crate::stop::Stop;
use crate::terminal;

/// The better shell of the two, if it exists.
const SHELL: &str = "command -v bash >/dev/null 2>&1 && exec bash; exec sh";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    /// Start in this directory
    #[arg(short = 'w', long, value_name = "DIR", visible_alias = "workdir")]
    cwd: Option<String>,
    /// Run as this user of the sandbox
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let typed = terminal::is_typed_at();
    let term = coracle::config::terminal().filter(|_| typed).map(|name| ("TERM".to_owned(), name));
    let request = ExecRequest {
        argv: ["/bin/sh", "-c", SHELL].map(|word| word.as_bytes().to_vec()).into(),
        cwd: args.cwd,
        user: args.user,
        env: term.into_iter().collect(),
        // A person thinks longer than a command runs.
        timeout: Timeout::Longest,
        stdin: Stdin::Open,
        terminal: typed.then(terminal::size),
        ..ExecRequest::default()
    };
    let tie = if typed { Tie::Terminal } else { Tie::Client };
    let engine = context.engine()?;
    let sandbox = context.sandbox(&engine, &args.sandbox)?;
    Session::on(context, engine, tie)?.exec(&sandbox, request)
}
