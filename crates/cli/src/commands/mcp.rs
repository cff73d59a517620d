//! `coracle mcp`: serves tools to an MCP client on standard input and output; `coracle mcp install` configures the
//! client.

mod install;

use clap::{Subcommand, ValueEnum};
use coracle::{Error, Kind, Result, SpecInput};
use coracle_core::Ceiling;
use coracle_core::ceiling::Choice;
use coracle_engine::ops::sandbox::close;
use coracle_engine::{Caller, Engine, Inline};

use crate::args::SpecArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{panics, stderr};
use coracle_mcp::identity::Identity;
use coracle_mcp::stdio::{self, Streams};
use coracle_mcp::{Mode, Opened, Server, Set, Toolbox};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    offer: Offer,
    /// Close the sandboxes that the client opened when it disconnects, instead of at their idle limit
    #[arg(long, global = true)]
    close_at_end: bool,
    /// Run commands as this user of the sandbox instead of the image's
    #[arg(short, long, global = true, value_name = "USER")]
    user: Option<String>,
    #[command(flatten)]
    spec: SpecArgs,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Configure an MCP client to start this, with the flags given here
    Install(install::Args),
}

/// The tools for a client.
#[derive(Debug, clap::Args)]
pub struct Offer {
    /// Offer the tools of this mode
    #[arg(long, global = true, value_enum, default_value_t, value_name = "MODE")]
    mode: Mode,
    /// Offer more tools: run, snapshots, ownership, processes, files, network, inventory, images, volumes, repos, all
    #[arg(long, global = true, value_delimiter = ',', value_name = "SETS")]
    with: Vec<String>,
    /// Let the model choose some of: image, network, limits; never beyond what the flags say
    #[arg(long, global = true, value_delimiter = ',', value_name = "FIELDS")]
    let_choose: Vec<Choice>,
}

impl Offer {
    fn sets(&self) -> Result<Vec<Set>> {
        self.with.iter().map(|name| name.parse()).collect()
    }

    /// Returns the spec of the client's sandboxes, and which fields of it the model may choose.
    fn ceiling(&self, context: &Context, spec: SpecInput) -> Result<Ceiling> {
        Ceiling::of_model(spec, self.let_choose.iter().copied().collect(), &context.config()?.policy)
    }

    /// Returns the flags that make the same offer.
    fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        let mode = self.mode.to_possible_value().filter(|_| self.mode != Mode::default());
        flags.extend(mode.into_iter().flat_map(|mode| ["--mode".to_owned(), mode.get_name().to_owned()]));
        if !self.with.is_empty() {
            flags.extend(["--with".to_owned(), self.with.join(",")]);
        }
        if !self.let_choose.is_empty() {
            let names: Vec<_> = self.let_choose.iter().map(|choice| choice.name()).collect();
            flags.extend(["--let-choose".to_owned(), names.join(",")]);
        }
        flags
    }
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let sets = args.offer.sets()?;
    let described = |spec: SpecArgs| Ok::<_, Error>(SpecInput { user: args.user.clone(), ..spec.input()? });
    if let Some(Verb::Install(install)) = args.verb {
        let spec = one_of(args.spec, install.spec.clone())?;
        let ceiling = args.offer.ceiling(context, described(spec.clone())?)?;
        context.engine()?.access().check_ceiling(&context.caller()?.below(ceiling))?;
        let mut flags = flags(context, &args.offer, args.close_at_end);
        flags.extend(args.user.iter().flat_map(|user| ["--user".to_owned(), user.clone()]));
        flags.extend(spec.flags()?);
        return install::carry_out(context, install, &flags);
    }
    let ceiling = args.offer.ceiling(context, described(args.spec)?)?;
    // Before anything could print: from here on standard output belongs to the client alone.
    let streams = Streams::take()?;
    let (engine, caller) = (context.engine()?, context.caller()?);
    let model = caller.clone().below(ceiling);
    engine.access().check_ceiling(&model)?;
    let toolbox = Toolbox::of(engine.catalogue(), args.offer.mode, &sets, model.ceiling.as_deref());
    let answering = engine.answering(Inline::at_most(engine.policy().inline_output));
    let server = Server::new(answering, Identity::of_client(model)?, toolbox);
    let opened = server.opened().clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name(panics::REQUESTS)
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(|error| Error::internal("could not start the runtime", error))?;
    let served = runtime.block_on(stdio::serve(server, streams));
    // Calls that still wait for a command are abandoned; their answers have no reader.
    runtime.shutdown_background();
    if args.close_at_end {
        close_all(&engine, &caller, &opened);
    }
    served?;
    Ok(Exit::SUCCESS)
}

/// Returns the sandbox described by the flags before or after `install`.
fn one_of(before: SpecArgs, behind: SpecArgs) -> Result<SpecArgs> {
    match (before.flags()?.is_empty(), behind.flags()?.is_empty()) {
        (true, _) => Ok(behind),
        (false, true) => Ok(before),
        (false, false) => {
            let message = "the sandbox is described twice, before and after `install`";
            Err(Error::new(Kind::Invalid, message).hint("write all of it after `install`"))
        }
    }
}

/// Returns the flags to write into the client's settings.
fn flags(context: &Context, offer: &Offer, close_at_end: bool) -> Vec<String> {
    let mut flags = offer.flags();
    if close_at_end {
        flags.push("--close-at-end".to_owned());
    }
    flags.extend(context.flags().run.into_iter().flat_map(|run| ["--run".to_owned(), run.into()]));
    let home = context.flags().home.and_then(|home| std::path::absolute(home).ok());
    let home = home.and_then(|home| home.into_os_string().into_string().ok());
    flags.extend(home.into_iter().flat_map(|home| ["--home".to_owned(), home]));
    flags
}

/// For one client; calls have threads of their own.
const THREADS: usize = 2;

fn close_all(engine: &Engine, caller: &Caller, opened: &Opened) {
    for sandbox_id in opened.all() {
        let input = close::Input { sandbox_id, delete_workspace: false, forget: false };
        match engine.perform(caller, input) {
            // It is gone, or has another owner by now.
            Err(error) if !matches!(error.kind, Kind::NotFound | Kind::NotOwner) => {
                stderr::warning(&error.chain());
            }
            Ok(_) | Err(_) => {}
        }
    }
}
