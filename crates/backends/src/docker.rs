//! Engines that speak Docker's API: where they listen and how they are reached.

pub mod endpoint;
