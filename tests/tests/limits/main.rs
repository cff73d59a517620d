//! Limits hold and are reported by type; a command that hits them costs neither the machine nor coracle anything.

mod cpu;
mod disk;
mod full;
mod memory;
mod output;
mod pids;
