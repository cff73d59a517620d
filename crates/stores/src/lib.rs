//! What a home keeps: records ([`coracle_core::Store`]) the output of closed sandboxes ([`coracle_core::KeptLogs`])
//! and fetched packages ([`coracle_core::install::PackageCache`]).
//! Each implementation is one module.

pub mod kept_logs;
pub mod packages;
pub mod sqlite;

pub use kept_logs::LogFiles;
pub use packages::PackageFiles;
pub use sqlite::SqliteStore;
