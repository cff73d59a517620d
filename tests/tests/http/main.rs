//! The HTTP door from outside: a real daemon, a client that hides nothing.

mod events;
mod load;
mod operations;
mod schema;
mod socket;
mod streams;
mod upheaval;
