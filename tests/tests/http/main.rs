//! The HTTP door from outside: a real daemon, a client that hides nothing.

mod answers;
mod auth;
mod auth_browsers;
mod auth_keys;
mod auth_log;
mod clocks;
mod crowds;
mod events;
mod floods;
mod leaving;
mod load;
mod operations;
mod panics;
mod schema;
mod service;
mod socket;
mod streams;
mod upheaval;
