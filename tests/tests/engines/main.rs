//! The same sandbox on container engines: Docker, Podman, and one behind ssh.

mod background;
mod conformance;
mod crash;
mod deadlines;
mod far;
mod first;
mod keys;
mod lifetime;
mod owners;
mod parity;
mod private;
mod programs;
mod sleep;
mod tls;
mod users;
mod versions;
