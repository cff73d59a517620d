//! The egress proxy against hostile clients: which bytes it reads, and which it refuses.

mod heads;
mod hellos;
mod keeper;
mod socks;
