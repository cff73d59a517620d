//! The names of the cases, so that a goal cannot refer to one that does not exist.

pub const BASE: &str = "base";
pub const DIRECT_WRITE: &str = "direct write 1 KiB";
pub const BWRAP: &str = "bwrap";
pub const CRUN: &str = "crun";
pub const DOCKER_RUN: &str = "docker run";
pub const DOCKER_EXEC: &str = "docker exec";
pub const DOCKER_ARCHIVE: &str = "docker cp 1 KiB";
pub const LIBRARY_RUN: &str = "coracle library run";
pub const CLI_RUN: &str = "coracle cli run";
pub const EXEC: &str = "coracle exec";
pub const WRITE: &str = "coracle write 1 KiB";
pub const EXEC_AFTER_IDLE: &str = "coracle exec after 1 s idle";
pub const EXEC_WHILE_DIRTY: &str = "coracle exec, 300 MiB dirty";
pub const RUN_AFTER_IDLE: &str = "coracle run after 1 s idle";
pub const RUN_WHILE_DIRTY: &str = "coracle run, 300 MiB dirty";
