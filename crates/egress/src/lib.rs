//! The egress proxy of sandboxes: the part of their network that is outside them.
//!
//! A sandbox contains only addresses to connect to; see the guest's file `egress.rs`. Each connection comes to a
//! [`keeper`], which reads what the client wants ([`head`], [`socks`], [`tls`]), asks the scope, looks the name up,
//! checks the address, and carries the bytes ([`carry`]). It records a denial before it refuses ([`denials`]).
//!
//! This crate reads hostile bytes, so it can reach no store and no backend. A keeper reaches its guest through a
//! port, [`keeper::Guest`], which the engine implements.

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
