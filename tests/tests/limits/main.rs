//! Limits hold, say so by type, and neither the machine nor coracle itself pays for what a command does.

mod cpu;
mod disk;
mod full;
mod memory;
mod output;
mod pids;
