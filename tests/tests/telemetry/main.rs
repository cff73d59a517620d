//! What is told of what is done: traces and metrics, received by a collector of the test's own.

mod collector;
mod exposition;
mod faults;
mod metrics;
mod secrets;
mod traces;
