//! The egress proxy against hostile clients: what is read, and what is refused.

mod heads;
mod hellos;
mod keeper;
mod socks;
