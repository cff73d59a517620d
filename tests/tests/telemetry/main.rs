//! What coracle reports: events, usage, the output of closed sandboxes, traces and metrics.

mod collector;
mod events;
mod exposition;
mod faults;
mod logs;
mod metrics;
mod secrets;
mod stats;
mod traces;
