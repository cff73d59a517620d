//! `kill -9` at every crash point and at any other moment: one `gc` later nothing without an owner is left.

mod anytime;
mod forks;
mod points;
mod sleep;
mod stopped;
