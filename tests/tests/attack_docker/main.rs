//! The same attacks as in `attack`, on a Docker of the tests' own, and those that only a container engine makes possible.

/// What has files of its own below it is found through its directory.
#[path = "../attack"]
mod attack {
    mod network;
}
#[path = "../attack/capabilities.rs"]
mod capabilities;
#[path = "../attack/debugging.rs"]
mod debugging;
#[path = "../attack/devices.rs"]
mod devices;
mod families;
#[path = "../attack/files.rs"]
mod files;
#[path = "../attack/guest.rs"]
mod guest;
mod images;
#[path = "../attack/namespaces.rs"]
mod namespaces;
#[path = "../attack/neighbours.rs"]
mod neighbours;
#[path = "../attack/proc.rs"]
mod proc;
#[path = "../attack/records.rs"]
mod records;
#[path = "../attack/resources.rs"]
mod resources;
mod socket;
#[path = "../attack/sockets.rs"]
mod sockets;
#[path = "../attack/syscalls.rs"]
mod syscalls;
mod watches;

use coracle_tests::attack::Ground;

/// Where all of this is tried.
const GROUND: Ground = Ground::Docker;
