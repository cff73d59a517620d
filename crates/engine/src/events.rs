//! What has happened: events of execs are written here, and all events are read here. The store tells those of records.

pub(crate) mod event_writer;
mod exec_events;
pub mod watch;
