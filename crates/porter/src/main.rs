//! Porter: takes one order, carries it out, answers, ends.
//!
//! In a sandbox it is like any command there: it has the same user, the same walls, and a connection to the host as its
//! standard streams. It trusts neither the objects it receives nor the tree it writes to.

mod asked;
mod checkout;
mod link;

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use coracle_porter::{Answer, Failed, Frame, Order, Why};

use link::Link;

/// The name the host starts it by, in its cage.
const ASKED: &str = "porter-asked";

fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|name| name == ASKED) {
        return asked::run();
    }
    let Ok((input, output)) = streams() else { return ExitCode::FAILURE };
    match serve(input, output) {
        Ok(()) => ExitCode::SUCCESS,
        // The host is gone, and needs no answer.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Returns the standard streams, without the buffers of the library.
fn streams() -> io::Result<(std::fs::File, std::fs::File)> {
    Ok((io::stdin().as_fd().try_clone_to_owned()?.into(), io::stdout().as_fd().try_clone_to_owned()?.into()))
}

fn serve(input: impl Read, output: impl Write) -> io::Result<()> {
    let mut link = Link::new(input, output);
    let answer = match link.order() {
        Ok(Order::Checkout(order)) => checkout::run(&order, &mut link).map(Answer::CheckedOut),
        Ok(Order::Ask { .. }) => Err(Failed::new(Why::Invalid, "questions are answered on the host")),
        Err(error) => Err(Failed::new(Why::Invalid, format!("could not read the order: {error}"))),
    };
    let answer = answer.unwrap_or_else(Answer::Failed);
    let bytes = minicbor::to_vec(&answer).map_err(io::Error::other)?;
    link.send(&Frame::Message(bytes))
}
