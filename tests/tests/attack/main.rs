//! A command can see and do nothing beyond its sandbox. The tests judge from outside wherever that is possible.
//!
//! Rows of the catalogue are named by their ids; each also runs on a weakened twin, where it has to succeed. Tests without
//! an id check what a sandbox must never show, and the decoder of guest messages.

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
mod layers;
mod lives;
mod namespaces;
mod neighbours;
mod network;
mod not_yet_tried;
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
