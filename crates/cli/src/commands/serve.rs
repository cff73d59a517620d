//! `coracle serve`: the daemon. It pulls the images of the settings, sweeps what dead processes left, and serves.

mod files;
mod notify;
mod timers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use coracle::assemble::{self, SteadyClock};
use coracle::config::{Config, systemd};
use coracle::{Error, Kind, Result};
use coracle_engine::ops::image::prepull;
use coracle_engine::{Caller, Engine};
use coracle_sys::heap;
use signal_hook::consts::{SIGINT, SIGTERM};
use tokio::runtime::Runtime;

use crate::args::{Span, span};
use crate::context::Context;
use crate::exit::Exit;
use crate::lock::{self, Duty};
use crate::panics;
use crate::stop::Stop;
use crate::{stderr, sweep};
use coracle_service::audit::Audit;
use coracle_service::listen::{self, Address, Bound};
use coracle_service::telemetry;
use coracle_service::{Parts, Router, Service};

/// Each thread serves one call, or one direction of a stream, and exists while it is needed. One tenant may use a
/// sixteenth of them.
const THREADS_MAX: usize = 4096;
/// As in the library: enough for a burst of a few; each waiting spare takes half a megabyte.
const SPARES: usize = 6;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Listen at this unix socket, which only you may open; `coracle.sock` in the home by default
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Listen at this address, too, for callers with a token
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// Listen at addresses others can reach, because a proxy with TLS stands before them
    #[arg(long)]
    behind_tls: bool,
    /// Let calls go on for this long after the daemon is stopped
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    drain: Span,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    // Before anything is opened. Only the soft limit changes; the hard limit bounds sandboxes as before.
    let files = files::raise_limit();
    let config = context.config()?.clone();
    args.listen.iter().try_for_each(|address| refuse_open_door(&args, *address))?;
    let engine = context.untouched_engine()?;
    // Printed at every start: the reader of a daemon's log may not be the person who called here before.
    config.notes.iter().for_each(|note| stderr::note(note));
    let Some(_lock) = lock::only_one(&config.home, Duty::Serve)? else {
        return Err(already_served(&config).into());
    };
    give_back_memory();
    let runtime = runtime()?;
    let bound = {
        let _inside = runtime.enter();
        bind(&args, &config)?
    };
    bring_images(&engine, &context.caller()?);
    sweep::glance(&engine, sweep::LISTING);
    let spares = config.spares.unwrap_or(SPARES);
    let pool = (spares > 0).then(|| engine.lifecycle().keep_spares(spares));
    if let Some(metrics) = telemetry::metrics() {
        metrics.watch(&engine);
    }
    let service = service(engine, &config)?;
    let timers = timers::start(&service);
    end_at_signal(&service)?;
    notify::say("READY=1");
    let (closing, drain) = (service.closing().clone(), args.drain.duration);
    let ending = service.ending().clone();
    let serving = listen::Serving { router: router(&service), closing, drain, ending, files };
    runtime.block_on(listen::serve(bound, serving));
    notify::say("STOPPING=1");
    drop((timers, pool));
    // Commands that outlive their clients go on: clients ask the next daemon for them.
    runtime.shutdown_background();
    Ok(Exit::SUCCESS)
}

fn service(engine: Engine, config: &Config) -> Result<Service> {
    Ok(Service::new(Parts {
        engine,
        run: config.run.clone(),
        tokens: assemble::tokens(config)?,
        answers: assemble::answers(config)?,
        clock: Arc::new(SteadyClock::new()),
        audit: Audit::open(&config.home)?,
        doors: config.doors.clone(),
        ceiling: config.mcp.ceiling(&config.policy)?,
        operation_of: coracle_http::operation_of,
    }))
}

/// Puts the doors of the daemon together.
fn router(service: &Service) -> Router {
    let mut routes = coracle_http::routes(service.engine());
    routes.calls = routes.calls.merge(coracle_mcp::http::routes(service));
    coracle_service::router(service.clone(), routes)
}

/// Refuses an address without TLS: an eavesdropper would get the tokens.
fn refuse_open_door(args: &Args, address: SocketAddr) -> Result<()> {
    if address.ip().is_loopback() || args.behind_tls {
        return Ok(());
    }
    let message = format!("`{address}` can be reached by others, and nothing would be encrypted");
    Err(Error::new(Kind::Invalid, message)
        .hint("listen at 127.0.0.1 behind a proxy with TLS; with `--behind-tls` where the proxy is elsewhere")
        .detail("field", "listen"))
}

fn already_served(config: &Config) -> Error {
    Error::new(Kind::Conflict, format!("the home `{}` is served already", config.home.path().display()))
        .hint("one daemon serves a home; choose another with `--home`")
}

/// After a burst of large answers on hundreds of threads, the allocator must not keep the memory.
fn give_back_memory() {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    heap::limit_arenas(i32::try_from(processors).unwrap_or(i32::MAX));
    heap::return_large_blocks();
}

fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .thread_name(panics::REQUESTS)
        .enable_all()
        .max_blocking_threads(THREADS_MAX)
        .build()
        .map_err(|error| Error::internal("could not start threads", error))
}

/// Listens on the addresses of the flags, or on the sockets the service manager opened.
fn bind(args: &Args, config: &Config) -> Result<Vec<Bound>> {
    let mut bound = Vec::new();
    for number in systemd::sockets() {
        let failed = |error| Error::internal(format!("could not use socket {number}"), error);
        let inherited = coracle_sys::inherited::take(number).and_then(Bound::inherit).map_err(failed)?;
        if let Bound::Tcp(listener) = &inherited {
            refuse_open_door(args, listener.local_addr().map_err(failed)?)?;
        }
        bound.push(inherited);
    }
    if bound.is_empty() || args.socket.is_some() {
        let path = args.socket.clone().unwrap_or_else(|| config.home.daemon_socket());
        bound.push(announced(&Address::Unix(path))?);
    }
    for address in &args.listen {
        bound.push(announced(&Address::Tcp(*address))?);
    }
    Ok(bound)
}

fn announced(address: &Address) -> Result<Bound> {
    let bound = listen::bind(address)?;
    stderr::status(&format!("Listening at {}.", bound.address().unwrap_or_else(|| address.to_string())));
    Ok(bound)
}

/// A registry that is down must not keep the daemon from serving stored images.
fn bring_images(engine: &Engine, caller: &Caller) {
    if engine.policy().prepull.is_empty() {
        return;
    }
    match engine.perform(caller, prepull::Input::default()) {
        Ok(brought) => brought.failed.iter().for_each(|failed| {
            stderr::warning(&format!("could not pull image `{}`: {}", failed.image, failed.message));
        }),
        Err(error) => stderr::warning(&format!("could not pull images: {}", error.chain())),
    }
}

/// Ends gracefully at the first signal and at once at the second.
fn end_at_signal(service: &Service) -> Result<()> {
    let failed = |error| Error::internal("could not watch for signals", error);
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let closing = service.closing().clone();
    std::thread::spawn(move || {
        for _ in &mut signals {
            if closing.is_cancelled() {
                Exit::SUCCESS.leave();
            }
            stderr::status("Ending; sandboxes go on.");
            closing.cancel();
        }
    });
    Ok(())
}
