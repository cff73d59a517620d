//! `coracle forward`: reaches a port of a sandbox from here, on the loopback interface alone, until interrupted.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};

use coracle::{Error, Kind, SandboxId};
use coracle_engine::{Caller, Engine};
use serde_json::json;

use crate::cli::args::SandboxName;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stop::Stop;
use crate::cli::{stderr, stdout};

/// Connections at once; each costs a thread here and a connection to the guest.
const CONNECTIONS_MAX: usize = 128;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    /// The port in the sandbox, and the one here: the same if it is free and none is named
    #[arg(value_name = "PORT[:LOCAL]")]
    ports: Ports,
}

/// A port in the sandbox and one here.
#[derive(Debug, Clone, Copy)]
struct Ports {
    inside: u16,
    local: Option<u16>,
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (inside, local) =
            text.split_once(':').map_or((text, None), |(inside, local)| (inside, Some(local)));
        let port = |text: &str| text.parse::<u16>().map_err(|_| format!("`{text}` is no port"));
        let inside = port(inside)?;
        match inside {
            0 => Err("0 is no port of a sandbox".to_owned()),
            inside => Ok(Self { inside, local: local.map(port).transpose()? }),
        }
    }
}

/// Where connections are led to.
#[derive(Debug)]
struct Route {
    engine: Engine,
    caller: Caller,
    sandbox: SandboxId,
    port: u16,
    open: AtomicUsize,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let (engine, caller) = (context.engine()?, context.caller()?);
    let sandbox = context.sandbox(&engine, &args.sandbox)?;
    // Whoever may not use the sandbox learns it now and not with the first connection.
    engine.check_entry(&caller, &sandbox)?;
    let listener = bind(args.ports)?;
    let local = listener.local_addr().map_err(unusable)?;
    match context.json {
        true => stdout::json(&json!({
            "address": local.ip(), "port": local.port(), "sandbox_port": args.ports.inside,
        }))?,
        false => stdout::line(&local.to_string())?,
    }
    let port = args.ports.inside;
    let route = Route { engine, caller, sandbox, port, open: AtomicUsize::new(0) };
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || accept(&listener, &Arc::new(route), &ended));
    // Interrupts end the process as they do any other: there is nothing to tidy.
    match end.recv() {
        Ok(error) => Err(error.into()),
        Err(_) => Ok(Exit::SUCCESS),
    }
}

fn accept(listener: &TcpListener, route: &Arc<Route>, ended: &Sender<Error>) {
    for local in listener.incoming().flatten() {
        if route.open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            route.open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (route, ended) = (route.clone(), ended.clone());
        std::thread::spawn(move || {
            lead(&route, &local, &ended);
            route.open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Leads one connection. That nothing listens in the sandbox yet is no reason to end; that it is gone, is.
fn lead(route: &Route, local: &TcpStream, ended: &Sender<Error>) {
    match route.engine.forward(&route.caller, &route.sandbox, route.port, local) {
        Ok(()) => {}
        Err(error) if error.details.contains_key("port") => stderr::warning(&error.chain()),
        // The other thread ends the process; if it has begun to, the error is told already.
        Err(error) => drop(ended.send(error)),
    }
}

/// Binds the port that was asked for, or else the same as inside, or else any.
fn bind(ports: Ports) -> Result<TcpListener, Error> {
    let at = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    match ports.local {
        Some(port) => at(port).map_err(|error| {
            Error::new(Kind::NotAvailable, format!("could not listen on port {port}"))
                .hint("leave it out to get one that is free")
                .caused_by(error)
        }),
        None => at(ports.inside).or_else(|_| at(0)).map_err(unusable),
    }
}

fn unusable(error: std::io::Error) -> Error {
    Error::internal("could not listen on the loopback interface", error)
}
