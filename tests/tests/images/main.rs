//! Images, from a real registry to a running command, through the binary alone.

mod broken;
mod config;
mod debian;
mod hosts;
mod kept;
mod small;
mod workshop;
