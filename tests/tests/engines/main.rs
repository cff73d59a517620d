//! The same sandbox on engines: Docker's, Podman's, and one behind ssh.

mod conformance;
mod parity;
mod private;
