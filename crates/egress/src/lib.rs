//! The egress proxy of sandboxes: the part of their network that is outside them.
//!
//! Inside a sandbox there is nothing but places to connect to; see the guest's file `egress.rs`. Each connection comes
//! to a [`keeper`], which reads what it wants ([`head`], [`socks`], [`tls`]), asks the scope, looks the name up and
//! checks the address, and carries the bytes ([`carry`]). What is refused is written down first ([`denials`]).
//!
//! Hostile bytes are read here, so no store and no backend is in reach. A keeper gets at its guest by a port,
//! [`keeper::Guest`], which the engine implements.

pub mod body;
pub mod carry;
mod client;
mod client_protocol;
mod control;
pub mod denials;
mod dial;
pub mod directory;
pub mod head;
pub mod keeper;
mod own;
pub mod pace;
mod scope;
pub mod socks;
pub mod tls;
pub mod weak;
