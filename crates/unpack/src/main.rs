//! The unpacker: takes one order, puts itself in a cage, unpacks one layer, reports, ends.
//!
//! Life: the host launches it in its own namespaces; it receives the order, makes the layer's directory its root
//! and gives up everything else; only then does it read the first byte of the layer. When the host dies, so does
//! it.

mod cage;
mod layer;
mod place;
mod stream;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use coracle_sys::{descriptors, launch};
use coracle_unpack::order::ORDER_MAX;
use coracle_unpack::{Order, Outcome, Refusal, Report, Target, walk};

use layer::Layer;
use stream::Stream;

fn main() {
    let mut host = launch::boot_socket();
    let report = match run(&host) {
        Ok(outcome) => Report::Done(outcome),
        Err(refusal) => Report::Refused(refusal),
    };
    // If this fails the host is gone, and needs no report.
    let _ = report.write(&mut host);
}

fn run(host: &UnixStream) -> Result<Outcome, Refusal> {
    let (order, mut descriptors) = descriptors::receive(host, ORDER_MAX)
        .map_err(|error| Refusal::machine("receive the order", error))?;
    let order = Order::decode(&order).ok_or_else(|| Refusal::machine("read the order", "it is malformed"))?;
    let mount = descriptors.split_off(descriptors.len().min(1)).pop();
    let blob = descriptors.pop().ok_or_else(|| Refusal::machine("read the order", "the layer is missing"))?;
    let root =
        cage::enter(&order, mount).map_err(|failure| Refusal::machine(failure.attempted, failure.cause))?;
    unpack(&order, blob, root, host)
}

fn unpack(order: &Order, blob: OwnedFd, root: OwnedFd, host: &UnixStream) -> Result<Outcome, Refusal> {
    let mut stream = Stream::open(blob.into(), order, host)?;
    let mut layer = Layer::new(root, matches!(order.target, Target::Mount));
    let entries = walk(&mut stream, &order.limits, &mut layer)?;
    layer.finish()?;
    Ok(Outcome { diff_id: stream.digest(), entries, ..layer.outcome() })
}
