//! The same sandbox on engines: Docker's, Podman's, and one behind ssh.

mod conformance;
mod crash;
mod far;
mod first;
mod lifetime;
mod owners;
mod parity;
mod private;
mod tls;
mod users;
