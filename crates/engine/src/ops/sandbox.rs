//! Operations on sandboxes: one file per verb, each with its `Input`, its `Output` and `call`.

pub mod claim;
pub mod close;
pub mod exec;
pub mod exec_read;
pub mod exec_stop;
pub mod exec_wait;
pub mod exec_write;
pub mod fork;
pub mod fs_delete;
pub mod fs_list;
pub mod fs_move;
pub mod fs_read;
pub mod fs_stat;
pub mod fs_write;
pub mod get;
pub mod list;
pub mod network;
pub mod open;
pub mod pause;
pub mod release;
pub mod resume;
pub mod run;
pub mod snapshot;
pub mod stats;
pub mod transfer;
