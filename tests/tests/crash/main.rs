//! `kill -9` at every named point and at any other moment: one `gc` later nothing is left that nobody owns.

mod anytime;
mod forks;
mod points;
mod stopped;
