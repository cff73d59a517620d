//! The same sandbox on engines: Docker's, Podman's, and one behind ssh.

mod crash;
mod parity;
mod private;
