//! The network of sandboxes: what is read, what is let through, and what is not.

mod heads;
mod hellos;
mod keeper;
mod socks;
