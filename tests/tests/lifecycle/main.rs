//! The life of a sandbox and of a home: spares, owners, sleep, an upgrade of coracle, purge.

mod fence;
mod purge;
mod sleep;
mod spares;
mod upgrade;
