//! `coracle spares`: keeps the spare pool for other calls. A call starts it if the settings ask for spares; it ends
//! by itself after a minute without calls.

use std::io::{BufRead, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coracle::{Error, Kind, Result, RunId};
use coracle_core::Spec;
use coracle_engine::{Caller, Engine};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::context::Context;
use crate::exit::Exit;
use crate::lock::{self, Duty};
use crate::spare_pool::{self, Line, Request};
use crate::stderr;
use crate::stop::Stop;

/// How long spares wait for a caller. They cost memory, and a person who has not called for a minute has stopped.
const IDLE: Duration = Duration::from_secs(60);
/// How often to check for that, and for an order to end.
const LOOK: Duration = Duration::from_millis(250);
/// Simultaneous calls. Further calls make their sandboxes themselves.
const CALLS_MAX: usize = 64;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Keep sandboxes of this shape, as JSON, until another one is asked for
    #[arg(long, value_name = "SPEC", hide = true)]
    like: Option<String>,
    /// Remove all spares and end the process that keeps them
    #[arg(long)]
    stop: bool,
}

/// What the threads share.
struct Shop {
    engine: Engine,
    calls: AtomicUsize,
    told_to_end: AtomicBool,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let home = context.config()?.home.clone();
    if args.stop {
        // If no process listens, there is nothing to stop.
        if let Some(mut line) = Line::open(&home) {
            line.end().map_err(|error| Error::internal("could not end the keeping of spares", error))?;
        }
        return Ok(Exit::SUCCESS);
    }
    let count = context.config()?.spares.unwrap_or(0);
    if count == 0 {
        let error = Error::new(Kind::Invalid, "no spares are wanted");
        return Err(error.hint("set `spares` in the settings, or `CORACLE_SPARES`").into());
    }
    let engine = context.engine()?;
    let Some(_lock) = lock::only_one(&home, Duty::KeepSpares)? else { return Ok(Exit::SUCCESS) };
    // Leave the terminal's session: a hangup or Ctrl-C is meant for the call that started us.
    let _ = rustix::process::setsid();
    let pool = engine.lifecycle().keep_spares(count);
    if let Some(shape) = args.like.as_deref().and_then(|text| serde_json::from_str::<Spec>(text).ok()) {
        engine.lifecycle().want(&shape);
    }
    let listener =
        spare_pool::listen(&home).map_err(|error| Error::internal("could not listen for calls", error))?;
    let shop = Arc::new(Shop { engine, calls: AtomicUsize::new(0), told_to_end: AtomicBool::new(false) });
    serve(&shop, &listener);
    // First of all: from now on callers make their own sandboxes.
    drop(listener);
    spare_pool::hang_up(&home);
    drop(pool);
    Ok(Exit::SUCCESS)
}

/// Answers calls until none came for a while, or one asked us to end.
fn serve(shop: &Arc<Shop>, listener: &UnixListener) {
    let mut last_call = Instant::now();
    while !shop.told_to_end.load(Ordering::Relaxed) {
        let busy = shop.calls.load(Ordering::Relaxed) > 0;
        match wait(listener) {
            false if busy => last_call = Instant::now(),
            false if last_call.elapsed() >= IDLE => return,
            false => {}
            true => {
                last_call = Instant::now();
                accept(shop, listener);
            }
        }
    }
}

/// Waits a little for a call; tells whether there is one.
fn wait(listener: &UnixListener) -> bool {
    let mut watched = [PollFd::new(listener, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
    matches!(poll(&mut watched, Some(&time)), Ok(ready) if ready > 0)
}

fn accept(shop: &Arc<Shop>, listener: &UnixListener) {
    let Ok((stream, _)) = listener.accept() else { return };
    if shop.calls.fetch_add(1, Ordering::Relaxed) >= CALLS_MAX {
        shop.calls.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let shop = shop.clone();
    std::thread::spawn(move || {
        converse(&shop, &stream);
        shop.calls.fetch_sub(1, Ordering::Relaxed);
    });
}

fn converse(shop: &Shop, stream: &UnixStream) {
    // A call lasts as long as its command, so there is no timeout for its next message.
    for line in BufReader::new(stream).lines() {
        let Some(request) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { return };
        if answer(shop, stream, request).is_err() {
            return;
        }
    }
}

fn answer(shop: &Shop, stream: &UnixStream, request: Request) -> std::io::Result<()> {
    match request {
        Request::Take { run, spec } => {
            let given = shop.engine.lifecycle().give_out(&caller(run), &spec).unwrap_or_else(|error| {
                stderr::warning(&error.chain());
                None
            });
            spare_pool::send(stream, &given)
        }
        Request::Dismiss { run, sandbox } => {
            spare_pool::send(stream, &shop.engine.lifecycle().dismiss(&caller(run), &sandbox).is_ok())
        }
        Request::End => {
            shop.told_to_end.store(true, Ordering::Relaxed);
            spare_pool::send(stream, &true)
        }
    }
}

fn caller(run: RunId) -> Caller {
    Caller::acting_as(run)
}
