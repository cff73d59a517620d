//! The image store against a real registry, and against hostile ones.

mod archives;
mod crashes;
mod credentials;
mod hostile_layers;
mod hostile_registries;
mod layers;
mod pull;
mod removal;
mod rootless;
mod server;
mod tls;
mod transfers;
mod workshop;
