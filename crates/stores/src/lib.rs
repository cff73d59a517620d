//! What a home keeps: records ([`coracle_core::Store`]) and the output of closed sandboxes ([`coracle_core::KeptLogs`]).
//! Each implementation is one module.

pub mod kept_logs;
pub mod sqlite;

pub use kept_logs::LogFiles;
pub use sqlite::SqliteStore;
