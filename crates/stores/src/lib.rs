//! The stores. Each is one module that implements [`coracle_core::Store`].

pub mod sqlite;

pub use sqlite::SqliteStore;
