//! Limits hold and are reported by type; neither the machine nor coracle suffers from what a command does.

mod cpu;
mod disk;
mod full;
mod memory;
mod output;
mod pids;
