//! The HTTP door from outside: a real daemon, a client that hides nothing.

mod operations;
mod streams;
mod upheaval;
