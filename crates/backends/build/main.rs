//! Builds what backends put into every sandbox: the guest's program and the system call filters.

#![allow(clippy::print_stdout, reason = "that is how a build script speaks to cargo")]

mod calls;
mod filter;
mod guest;
mod program;

fn main() {
    guest::build();
    filter::build();
}
