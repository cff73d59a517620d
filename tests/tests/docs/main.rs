//! Every command of README.md and docs/, typed as printed, in order, on a machine where coracle was never used.

mod machine;
mod page;
mod pages;
mod shell;
