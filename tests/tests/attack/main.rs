//! What a command can see and do beyond its sandbox: nothing. Judged from outside wherever that is possible.
//!
//! Rows of the catalogue are named by their ids; each is tried on a weakened twin as well, where it has to succeed. What
//! has no id is what a sandbox must not show, whoever looks.

mod answers;
mod capabilities;
mod ceiling;
mod debugging;
mod devices;
mod environment;
mod files;
mod forks;
mod guest;
mod handover;
mod later;
mod layers;
mod lives;
mod namespaces;
mod neighbours;
mod network;
mod proc;
mod programs;
mod records;
mod registries;
mod resources;
mod shipped;
mod slowness;
mod sockets;
mod syscalls;
mod view;
mod wire;

use coracle_tests::attack::Ground;

/// Where all of this is tried.
const GROUND: Ground = Ground::Native;
