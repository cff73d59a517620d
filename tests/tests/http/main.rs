//! The HTTP door: a real daemon, and a client that shows every byte.

mod answers;
mod auth;
mod auth_browsers;
mod auth_keys;
mod auth_log;
mod bodies;
mod clocks;
mod crowds;
mod daemon_restarts;
mod deadlines;
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
