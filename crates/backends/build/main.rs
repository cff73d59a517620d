//! Builds what backends put into every sandbox: the guest's program and the system call filters.

mod filter;
mod guest;

fn main() {
    guest::build();
    filter::build();
}
