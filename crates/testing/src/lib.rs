//! Strict fakes of the ports, and the conformance suites that every implementation runs.
//!
//! A fake panics where a real implementation would only misbehave, so that a caller's mistake shows at once.

mod answers;
pub mod backend;
mod builder;
mod channel;
pub mod client;
pub mod clock;
pub mod conformance;
mod events;
mod guest;
mod images;
mod kept_logs;
mod packages;
mod repos;
pub mod sample;
pub mod store;
mod volumes;

pub use answers::FakeAnswers;
pub use backend::{FakeBackend, Fault, Step};
pub use client::Client;
pub use clock::ManualClock;
pub use images::FakeImages;
pub use kept_logs::FakeLogs;
pub use packages::FakePackages;
pub use repos::FakeRepos;
pub use store::FakeStore;
pub use volumes::FakeVolumes;
