//! Answers one question about the objects of a repository: on the host, in a cage where there is nothing else.
//!
//! Life: the host launches it in its own namespaces; it receives the question and the object directory, makes that its
//! root and gives up everything else; only then does it read the first object.

mod cage;
mod diff;
mod history;
mod merge;
mod objects;
mod pack;

use std::io;
use std::process::ExitCode;

use coracle_porter::{Answer, Failed, Frame, Order, Question, Why, write};
use coracle_sys::{descriptors, launch};

use objects::Objects;

/// A question is a few ids and the message of a commit.
const ORDER_MAX: usize = 1 << 20;

/// Answers the question of the host.
pub fn run() -> ExitCode {
    let host = launch::boot_socket();
    let answer = match descriptors::receive(&host, ORDER_MAX) {
        Ok((order, mut received)) => answer(&order, received.pop()),
        Err(error) => Err(Failed::broken("receive the question", error)),
    };
    let sent = minicbor::to_vec(answer.unwrap_or_else(Answer::Failed))
        .map_err(io::Error::other)
        .and_then(|bytes| write(&mut &host, &Frame::Message(bytes)));
    match sent {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer(order: &[u8], directory: Option<std::os::fd::OwnedFd>) -> Result<Answer, Failed> {
    let Ok(Order::Ask { question, directory: path }) = minicbor::decode(order) else {
        return Err(Failed::new(Why::Invalid, "could not read the question"));
    };
    cage::enter(directory, path)?;
    let objects = Objects::open()?;
    match question {
        Question::Log { from, max } => history::log(&objects, &from, max),
        Question::IsAncestor { ancestor, descendant } => {
            history::is_ancestor(&objects, &ancestor, &descendant).map(|yes| Answer::IsAncestor { yes })
        }
        Question::Diff { old, new, files_max, text_max } => {
            diff::diff(&objects, old.as_deref(), &new, files_max as usize, text_max as usize)
        }
        Question::Merge(merge) => merge::merge(&objects, &merge).map(Answer::Merged),
    }
}
