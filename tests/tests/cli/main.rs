//! The command line as a person or a script uses it, on the embedded backend.

mod bounds;
mod commands;
mod deadline;
mod egress;
mod exec;
mod exit_codes;
mod files;
mod follow;
mod fork;
mod forward;
mod images;
mod input;
mod internet;
mod mounts;
mod names;
mod network;
mod open;
mod ordinary;
mod ownership;
mod pause;
mod persistence;
mod secrets;
mod selection;
mod snapshot;
mod tokens;
